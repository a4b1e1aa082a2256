"""What the session loop does differently where several workers run the step: they start alike, and end alike."""

import contextlib

import tensorflow.compat.v1 as tf

# What a collective raises when a worker at its other end is gone; also what it may raise for a reason of its own.
_OF_OTHERS = (tf.errors.AbortedError, tf.errors.CancelledError, tf.errors.DeadlineExceededError, tf.errors.InternalError,
              tf.errors.UnavailableError, tf.errors.UnknownError)


class StartAlike(tf.train.SessionRunHook):
    """Gives every worker the chief's variables before its first step: restored, or as they were initialised there."""

    def __init__(self, cluster):
        self._cluster = cluster

    def begin(self):
        self._broadcast = self._cluster.broadcast_variables()

    def after_create_session(self, session, coord):
        session.run(self._broadcast)


def session(cluster, model_dir, scaffold, hooks, config):
    """This worker's session on its server: that of the chief goes on from `model_dir`.

    Not a `MonitoredTrainingSession`, which would begin anew, and alone, when another worker is gone.
    """
    return tf.train.SingularMonitoredSession(
        hooks, scaffold, cluster.start(config=config), config, checkpoint_dir=model_dir if cluster.is_chief else None)


@contextlib.contextmanager
def ending_together(heartbeat):
    """Around what all workers do together (`heartbeat` None: there are no others): an error here ends the others too.

    Where it may come of another worker's end, that is waited for, since it names the worker.
    """
    try:
        yield
    except BaseException as error:  # KeyboardInterrupt and SystemExit too
        if heartbeat is not None:
            if isinstance(error, _OF_OTHERS):
                heartbeat.await_explanation()
            heartbeat.fail(getattr(error, "message", None) or str(error) or type(error).__name__)
        raise
