"""Checkpoints of a run: where the latest is, and whether it is of this network."""

import contextlib
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from towers import checkpoint_files


def check(path, variables):
    """ValueError, with what differs, unless a checkpoint holds all these variables in these shapes and types."""
    with _readable(path):
        reader = tf.train.load_checkpoint(path)
        stored, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    problems = []
    for variable in variables:
        name, shape = variable.op.name, variable.shape.as_list()
        if name not in stored:
            problems.append("{} {} is not in it".format(name, shape))
        elif list(stored[name]) != shape:
            problems.append("{} is {} there, {} here".format(name, list(stored[name]), shape))
        elif types[name] != variable.dtype.base_dtype:
            problems.append("{} is {} there, {} here".format(name, types[name].name, variable.dtype.base_dtype.name))
    if problems:
        raise ValueError("checkpoint {} is of another network: {}".format(path, listed(problems)))


def read(path, variables):
    """The values that a checkpoint holds for variables of a network to be used: a dict from name to array.

    Raises:
        ValueError: it is damaged, of another network, or holds what no trained network has: NaN, infinity, a variance below 0.
    """
    check(path, variables)
    with _readable(path):
        reader = tf.train.load_checkpoint(path)
        values = {variable.op.name: reader.get_tensor(variable.op.name) for variable in variables}
    bad = ["{} is not finite".format(name) for name, value in values.items() if not np.isfinite(value).all()]
    bad += ["{} is below 0".format(name) for name, value in values.items()
            if name.endswith("moving_variance") and (value < 0).any()]
    if bad:
        raise ValueError("checkpoint {} is of no use: {}: name another checkpoint".format(path, listed(bad)))
    return values


@contextlib.contextmanager
def _readable(path):
    """Around the reading of a checkpoint: what TensorFlow says of a damaged one, as a ValueError that names it."""
    try:
        yield
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:  # by version and by damage
        raise ValueError("checkpoint {} is damaged or is no checkpoint ({}): name another checkpoint (an older one, or that "
                         "in best/) or model_dir".format(path, " ".join(str(error).split()))) from error


def find(model_dir):
    """The latest checkpoint of a folder and its step, read through; (None, 0) where there is none.

    Raises:
        ValueError: its files are missing or damaged; what to do is in the message.
    """
    try:
        state = tf.train.get_checkpoint_state(model_dir)
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError("{} is damaged ({}): name a checkpoint in that folder with --checkpoint".format(
            os.path.join(model_dir, "checkpoint"), " ".join(str(error).split()))) from error
    if state is None or not state.model_checkpoint_path:
        return None, 0
    path = state.model_checkpoint_path
    try:
        return path, verified_step(path)
    except ValueError:
        now = tf.train.get_checkpoint_state(model_dir)
        if now is None or now.model_checkpoint_path == path:
            raise
        return find(model_dir)  # a training has saved others meanwhile, and deleted this one


def find_to_go_on(model_dir, say=lambda line: print(line, file=sys.stderr)):
    """As `find`, for a run that goes on: where the latest is missing or damaged, the last complete one before it.

    Args:
        model_dir: the folder.
        say: called with a line where it is not the latest.

    Raises:
        ValueError: there are checkpoints, and none is complete.
    """
    found = checkpoint_files.latest_complete(model_dir)
    if found.passed_over and not found.path:
        verified_step(found.passed_over[0][0])
    for path, why in found.passed_over:
        say("note: checkpoint {} is not complete ({}): the run goes on from {}, step {}".format(
            path, why, found.path, found.step))
    return found.path, found.step


def verified_step(path):
    """The global step that a checkpoint was saved at; ValueError unless every value of it can be read."""
    try:
        return checkpoint_files.verified_step(path)
    except ValueError as error:
        raise ValueError("checkpoint {} is damaged or is no checkpoint of a run ({}): name another checkpoint (an older one, "
                         "or that in best/) or model_dir".format(path, error)) from error


def skipped_runs(path):
    """How many runs of the step a float16 run has skipped until a checkpoint; 0 in other runs."""
    reader = tf.train.load_checkpoint(path)
    name = "loss_scale/skipped_runs"
    return int(reader.get_tensor(name)) if reader.has_tensor(name) else 0


def listed(items, limit=6):
    """Items in one line, the first few in full and the number of the rest."""
    rest = len(items) - limit
    return "; ".join(items[:limit]) + ("; and {} more".format(rest) if rest > 0 else "")
