"""A saver whose failures say what is left, and whose successes survive a power failure.

TensorFlow writes a checkpoint under temporary names first, so a disk that fills up, a folder that vanishes or one that
turns read-only leaves the checkpoints before it as they were; what it leaves of the failed one is taken away here.
"""

import os

import tensorflow.compat.v1 as tf

from towers import checkpoint_files


class SaveError(ValueError):
    """A checkpoint could not be written; the message says why, and which complete one is left."""


class CheckpointSaver(tf.train.Saver):
    """A `tf.train.Saver` for the checkpoints of a run."""

    def save(self, sess, save_path, global_step=None, **kwargs):
        """As `tf.train.Saver.save`; the files are on the disk when it returns.

        Raises:
          SaveError: naming the folder, the reason and the last complete checkpoint.
        """
        folder = os.path.dirname(save_path) or "."
        try:
            if not os.path.isdir(folder):  # TensorFlow would make it: on the disk that a mount which is gone had hidden
                raise OSError("it is not there any more")
            path = super(CheckpointSaver, self).save(sess, save_path, global_step=global_step, **kwargs)
            for name in sorted(os.listdir(folder)):
                if os.path.join(folder, name).startswith(path + "."):
                    _to_disk(os.path.join(folder, name))
            _to_disk(folder)
            return path
        except (tf.errors.OpError, OSError, ValueError) as error:
            raise SaveError("the checkpoint of step %s cannot be saved in %s (%s): %s" % (
                global_step, folder, _reason(error), _left(folder))) from error


def _to_disk(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if not os.path.isdir(path):  # some file systems have no such thing for folders
            raise error
    finally:
        os.close(handle)


def _reason(error):
    text = getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0].strip() if text else type(error).__name__


def _left(folder):
    """What there is to go on from, after the half-written files were removed."""
    if not os.path.isdir(folder):
        return "bring the folder back, with the checkpoints in it, or begin anew in another"
    for path in checkpoint_files.leftovers(folder):
        try:
            os.remove(path)
        except OSError:  # read-only by now: the next run takes them away
            pass
    found = checkpoint_files.latest_complete(folder)
    if found.path is None:
        return "there is no complete one; mend that, and the same command begins anew"
    return "%s is complete; mend that, and the same command goes on from there" % found.path
