"""What a run's folder holds after the process was killed, the disk was full or the power went, and what can be gone on from.

TensorFlow writes a checkpoint `model.ckpt-N` in three acts: tensors into `*.tempstate*` files, which are then renamed to
`.data-*` and `.index`; then the file `checkpoint`, which names it, is replaced. A kill between any two leaves a folder
whose `checkpoint` names the one before. Power failure can leave any of the files empty or cut, since a name may reach the
disk before the content: every tensor has a checksum, so that is found by reading.
"""

import collections
import glob
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

Found = collections.namedtuple("Found", "path step passed_over")
Found.__doc__ = """The checkpoint to go on from.

    path, step: its prefix and global step; (None, 0) where there is none
    passed_over: (prefix, why) of those that should have been it and are not complete, the latest first
"""


def latest_complete(folder):
    """The checkpoint that the folder's `checkpoint` file names, or the last complete one before it: a `Found`.

    Without such a file it is the last complete one that is there.
    """
    candidates = list(_named(folder))
    rest = candidates[1:] + [path for path in _there(folder) if path not in candidates]
    limit = _number(candidates[0]) if candidates else float("inf")
    passed_over = []
    for path in candidates[:1] + sorted((path for path in rest if _number(path) < limit), key=_number, reverse=True):
        try:
            return Found(path, verified_step(path), passed_over)
        except ValueError as error:
            passed_over.append((path, str(error)))
    return Found(None, 0, passed_over)


def verified_step(path):
    """The global step that a checkpoint was saved at; ValueError, with why, unless every value of it can be read.

    Checksums are compared as values are read, so a file that was cut or overwritten is found here.
    """
    if not (os.path.exists(path + ".index") and glob.glob(glob.escape(path) + ".data-*")):
        raise ValueError("its files are not there")
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
        step = np.asarray(reader.get_tensor(tf.GraphKeys.GLOBAL_STEP))
        if step.ndim or step.dtype.kind != "i" or step < 0:
            raise ValueError("its global step is {!r}".format(step.tolist()))
        return int(step)
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:  # by version and by damage
        raise ValueError(" ".join(str(error).split())) from error


def mend(folder):
    """Makes the folder's `checkpoint` file name what `latest_complete` finds, which it returns, and takes half-written
    files away. For the one process that writes there, before it does.
    """
    found = latest_complete(folder)
    for path in leftovers(folder):
        os.remove(path)
    named = list(_named(folder))
    if found.path and (not named or named[0] != found.path):
        kept = [path for path in _there(folder) if _number(path) < found.step]
        tf.train.update_checkpoint_state(folder, os.path.basename(found.path), [
            os.path.basename(path) for path in kept + [found.path]])
    return found


def leftovers(folder):
    """Files in a folder that were being written when the process was killed: a list of paths."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if re.search(r"\.tempstate\d+$|\.partial$", name) or _has_no_index(folder, name)]


def _has_no_index(folder, name):
    match = re.match(r"(.*\.ckpt-\d+)\.data-\d{5}-of-\d{5}$", name)
    return bool(match) and not os.path.exists(os.path.join(folder, match.group(1) + ".index"))


def _named(folder):
    """The prefixes that the `checkpoint` file names, the latest first; none where it is not there or is damaged."""
    try:
        state = tf.train.get_checkpoint_state(folder)
    except (tf.errors.OpError, ValueError):
        state = None
    if state is None or not state.model_checkpoint_path:
        return
    yield state.model_checkpoint_path
    for path in reversed(state.all_model_checkpoint_paths):
        if path != state.model_checkpoint_path:
            yield path


def _there(folder):
    """The prefixes of the checkpoints whose index is in the folder, in the order of their steps."""
    return sorted((path[:-len(".index")] for path in glob.glob(os.path.join(glob.escape(folder), "*.ckpt-*.index"))),
                  key=_number)


def _number(path):
    match = re.search(r"-(\d+)$", path)
    return int(match.group(1)) if match else -1
