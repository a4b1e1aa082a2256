"""The end of a run whose losses or gradients are no longer finite: what was first, on which examples, and a file about it."""

import contextlib
import json
import os

import tensorflow.compat.v1 as tf
from absl import logging

_SHOWN = 3  # names in the message; the file has all


class NonFiniteLossError(ValueError):
    """A loss or gradient is NaN or infinite; the message names the first such tensor and the step."""


@contextlib.contextmanager
def explained(train_step, session, model_dir, runs, replay=None):
    """Around the runs of a step: makes a failure of its check a `NonFiniteLossError`, and writes model_dir/nonfinite.json.

    The file has the step, what was not finite, and the names of the batch's examples.

    Args:
      train_step: a `TrainStep`.
      session: a `tf.train.MonitoredSession`.
      model_dir: the run's folder.
      runs: a function that returns how many runs of the step succeeded in this session.
      replay: as `session.run_training` takes it.
    """
    check = train_step.finite_check
    try:
        yield
    except tf.errors.OpError as error:
        what = check and check.failed(error)
        if not what:
            raise
        step = int(session.run_step_fn(lambda step_context: step_context.session.run(train_step.global_step))) + 1
        feeds, names = _replayed(replay, runs())
        first = None
        if feeds is not None:
            try:
                first = session.run_step_fn(lambda step_context: check.first(step_context.session, feeds))
            except (tf.errors.OpError, ValueError, MemoryError) as failure:  # the error to be told is the other one
                logging.warning("The step could not be run again to look for the first tensor: %s", failure)
        _raise(step, what, first, names, model_dir, check.worker, error)


def _replayed(replay, number):
    """What `replay` returns for a run; (None, []) where there is none or it fails."""
    if replay is None:
        return None, []
    try:
        return replay(number)
    except (tf.errors.OpError, ValueError, OSError) as failure:
        logging.warning("The batch could not be read again: %s", failure)
        return None, []


def _raise(step, what, first, names, model_dir, worker, error):
    record = {"step": step, "not_finite": what, "examples": list(names)}
    told = what
    if first is not None:
        record.update(first_tensor=first.tensor, tower=first.tower, values=first.what)
        told = "first the tensor %s%s: %s" % (first.tensor, "" if first.tower is None else " of tower %d" % first.tower,
                                              first.what)
    path = os.path.join(model_dir, "nonfinite.json" if worker == 0 else "nonfinite-worker%d.json" % worker)
    try:
        with open(path + ".partial", "w") as file:
            json.dump(record, file, indent=2)
            file.write("\n")
        os.replace(path + ".partial", path)
        where = " (%s)" % path
    except OSError as failure:
        where = " (%s could not be written: %s)" % (path, failure.strerror)
    batch = ""
    if names:
        more = len(names) - _SHOWN
        batch = "; its batch: %s%s" % (", ".join(names[:_SHOWN]), " and %d more" % more if more > 0 else "")
    raise NonFiniteLossError(
        "step %d is not finite, nan or inf, and was not applied: %s%s%s; the last checkpoint is from before: lower the "
        "learning rate or check the data" % (step, told, batch, where)) from error
