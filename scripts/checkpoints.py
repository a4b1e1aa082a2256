"""Checkpoints of a run: where the latest is, and whether it is of this network."""

import tensorflow.compat.v1 as tf


def check(path, variables):
    """ValueError, with what differs, unless a checkpoint holds all these variables in these shapes."""
    stored = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    problems = []
    for variable in variables:
        name, shape = variable.op.name, variable.shape.as_list()
        if name not in stored:
            problems.append("{} {} is not in it".format(name, shape))
        elif list(stored[name]) != shape:
            problems.append("{} is {} there, {} here".format(name, list(stored[name]), shape))
    if problems:
        raise ValueError("checkpoint {} is of another network: {}".format(path, _listed(problems)))


def find(model_dir):
    """The latest checkpoint of a folder and its step; (None, 0) where there is none."""
    path = tf.train.latest_checkpoint(model_dir)
    return (path, step_of(path)) if path else (None, 0)


def step_of(path):
    """The global step that a checkpoint was saved at."""
    return int(tf.train.load_checkpoint(path).get_tensor(tf.GraphKeys.GLOBAL_STEP))


def _listed(items, limit=6):
    """Items in one line, the first few in full and the number of the rest."""
    rest = len(items) - limit
    return "; ".join(items[:limit]) + ("; and {} more".format(rest) if rest > 0 else "")
