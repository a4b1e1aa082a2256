"""Checkpoints of a run: where the latest is, and whether it is of this network."""

import glob
import os

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
        raise ValueError("checkpoint {} is of another network: {}".format(path, listed(problems)))


def find(model_dir):
    """The latest checkpoint of a folder and its step, read through; (None, 0) where there is none.

    Raises:
        ValueError: its files are missing or damaged; what to do is in the message.
    """
    state = tf.train.get_checkpoint_state(model_dir)
    if state is None or not state.model_checkpoint_path:
        return None, 0
    path = state.model_checkpoint_path
    if not (os.path.exists(path + ".index") and glob.glob(glob.escape(path) + ".data-*")):
        raise ValueError("the files of checkpoint {} are not there, though {} names it: bring them back, or name another "
                         "checkpoint or model_dir".format(path, os.path.join(model_dir, "checkpoint")))
    return path, verified_step(path)


def verified_step(path):
    """The global step that a checkpoint was saved at; ValueError unless every value of it can be read.

    Checksums are compared as values are read, so a file that was cut or overwritten is found here.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
        return int(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:  # by version and by damage
        raise ValueError("checkpoint {} is damaged or is no checkpoint of a run ({}): name another checkpoint (an older one, "
                         "or that in best/) or model_dir".format(path, " ".join(str(error).split()))) from error


def listed(items, limit=6):
    """Items in one line, the first few in full and the number of the rest."""
    rest = len(items) - limit
    return "; ".join(items[:limit]) + ("; and {} more".format(rest) if rest > 0 else "")
