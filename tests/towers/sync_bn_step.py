"""One training build of sync_bn and all that comes of it, beside what one device would give."""

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

STATISTICS = ["sum", "concat"]
EPSILON = 1e-3


def tower_step(parts, statistics="sum", dtype=None, axis=-1, gamma=None, beta=None, dys=None, placeholders=None,
               steps=1, **kwargs):
    """One training build of `sync_bn` over `parts`, loss_i = sum(y_i dy_i): everything it gives, in float64."""
    channels = parts[0].shape[axis]
    gamma = np.linspace(.5, 2, channels) if gamma is None else gamma
    beta = np.linspace(-1, 1, channels) if beta is None else beta
    random = np.random.RandomState(7)
    dys = [random.randn(*part.shape) for part in parts] if dys is None else dys
    dtype = tf.as_dtype(dtype or parts[0].dtype)
    feed = {}
    if placeholders is None:
        xs = [tf.constant(part, dtype) for part in parts]
    else:
        xs = [tf.placeholder(dtype, placeholders) for _ in parts]
        feed = dict(zip(xs, parts))
    kwargs.setdefault("epsilon", EPSILON)
    kwargs.setdefault("gamma_initializer", tf.constant_initializer(gamma))
    kwargs.setdefault("beta_initializer", tf.constant_initializer(beta))

    def model(x, dy):
        y = towers.sync_bn(x, axis=axis, statistics=statistics, name="bn", **kwargs)
        assert y.dtype == x.dtype and y.shape.ndims == x.shape.ndims
        return y, tf.reduce_sum(tf.cast(y, tf.float64) * dy)

    results = towers.build(model, list(zip(xs, dys)), oracles.CPUS[:len(parts)], training=True)
    ys, losses = zip(*results)
    dxs = tf.gradients(losses, xs)
    trained = tf.trainable_variables()
    dparams = tf.gradients(losses, trained)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with oracles.session() as sess:
        oracles.initialize(sess)
        values = sess.run(dict(y=list(ys), dx=dxs, dparams=dict(zip([v.op.name for v in trained], dparams))), feed)
        for _ in range(steps):
            sess.run(updates, feed)
        values["state"] = {v.op.name: sess.run(v) for v in tf.global_variables() if "moving" in v.name or "num" in v.name}
    values["expected"] = oracles.BatchNorm([np.asarray(part, np.float64) for part in parts], gamma, beta,
                                           kwargs["epsilon"], dys, axis)
    return values


def assert_equals_one_device(values, tolerance, momentum=.99):
    expected = values["expected"]
    for y, dx, expected_y, expected_dx in zip(values["y"], values["dx"], expected.y, expected.dx):
        np.testing.assert_allclose(np.float64(y), expected_y, atol=tolerance, rtol=tolerance)
        scale = max(1, np.abs(expected_dx).max()) if expected_dx.size else 1
        np.testing.assert_allclose(np.float64(dx) / scale, expected_dx / scale, atol=tolerance)
    total = np.sqrt(expected.count)
    np.testing.assert_allclose(values["dparams"]["bn/gamma"] / total, expected.dgamma / total, atol=tolerance)
    np.testing.assert_allclose(values["dparams"]["bn/beta"] / total, expected.dbeta / total, atol=tolerance)
    rate = 1 - momentum
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], rate * expected.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], momentum + rate * expected.unbiased,
                               rtol=tolerance, atol=tolerance)


def batches(shapes, dtype=np.float64, seed=0, mean=.7, std=1.5):
    random = np.random.RandomState(seed)
    return [(mean + std * random.randn(*shape)).astype(dtype) for shape in shapes]
