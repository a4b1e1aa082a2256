"""What the towers must equal, in NumPy float64, and how tests run what they build. Shares no code with towers/."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf

HAS_TF_LAYERS = tuple(int(part) for part in tf.__version__.split(".")[:2]) < (2, 16)
CPUS = ["/cpu:%d" % i for i in range(8)]


def session():
    """A session with eight logical CPU devices, with soft placement as in `towers.session_config`."""
    config = tf.ConfigProto(device_count={"CPU": 8}, allow_soft_placement=True)
    return tf.Session(config=config)


def evaluate(fetches, feed_dict=None):
    """`fetches` in a new session, all variables at their initial values."""
    with session() as sess:
        initialize(sess)
        return sess.run(fetches, feed_dict)


def initialize(sess):
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])


def within(seconds, function):
    """Runs `function` under a watchdog: returns its result, or raises what it raises, or fails if it hangs."""
    graph, result = tf.get_default_graph(), {}

    def body():
        with graph.as_default():
            try:
                result["value"] = function()
            except BaseException as error:  # raised again below
                result["error"] = error

    thread = threading.Thread(target=body, name="watched")
    thread.daemon = True
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "building hangs"
    if "error" in result:
        raise result["error"]
    return result["value"]


def tower_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tower_")]


class BatchNorm(object):
    """Batch norm of the concatenated batch: y = gamma (x - mean) / sqrt(var + epsilon) + beta, and its gradients for dy.

    parts: the towers' arrays, channels in `axis`; all other axes count. Attributes: y, dx (lists like `parts`), dgamma,
    dbeta, mean, variance (biased), unbiased, count.
    """

    def __init__(self, parts, gamma, beta, epsilon, dys=None, axis=-1):
        rows = [_rows(part, axis) for part in parts]
        x = np.concatenate(rows)
        self.count = len(x)
        self.mean = x.sum(0) / max(self.count, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # for batches that hold NaN or infinity
            self.variance = ((x - self.mean) ** 2).sum(0) / max(self.count, 1)
            deviation = np.sqrt(self.variance + epsilon)
            xhat = (x - self.mean) / deviation
        self.unbiased = self.variance * self.count / max(self.count - 1, 1)
        self.y = self._split(xhat * gamma + beta, parts, axis)
        if dys is not None:
            dy = np.concatenate([_rows(part, axis) for part in dys])
            self.dbeta, self.dgamma = dy.sum(0), (dy * xhat).sum(0)
            dx = gamma / deviation * (dy - (self.dbeta + xhat * self.dgamma) / self.count)
            self.dx = self._split(dx, parts, axis)

    @staticmethod
    def _split(rows, parts, axis):
        result, first = [], 0
        for part in parts:
            moved = np.moveaxis(np.asarray(part), axis, -1)
            size = moved[..., 0].size
            result.append(np.moveaxis(rows[first:first + size].reshape(moved.shape), -1, axis))
            first += size
        return result


def _rows(x, axis):
    moved = np.moveaxis(np.asarray(x, np.float64), axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def ancestors(op):
    """All ops that run before `op`: through data and control inputs."""
    seen, pending = set(), [op]
    while pending:
        current = pending.pop()
        for before in [tensor.op for tensor in current.inputs] + list(current.control_inputs):
            if before not in seen:
                seen.add(before)
                pending.append(before)
    return seen


def ops_of(gradient):
    """The ops that compute a gradient, dense or sparse."""
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values.op, gradient.indices.op]
    return [gradient.op]
