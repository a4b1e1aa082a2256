"""The plain layer against TensorFlow: tf.nn.fused_batch_norm, tf.nn.batch_normalization, tf.layers where it exists."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def x_of(shape, dtype=np.float32, seed=0):
    return (np.random.RandomState(seed).randn(*shape) * 2 + 1).astype(dtype)


def trained(x, dy, dtype=None, **kwargs):
    """y, dx, dgamma, dbeta and the state after one update of `layers.batch_normalization` in training."""
    with tf.Graph().as_default():
        inputs = tf.constant(x, dtype)
        gamma = np.linspace(.5, 2, x.shape[kwargs.get("axis", -1)])
        y = towers.layers.batch_normalization(
            inputs, training=True, name="bn", gamma_initializer=tf.constant_initializer(gamma),
            beta_initializer=tf.constant_initializer(gamma - 1), **kwargs)
        by_name = {v.op.name.split("/")[1]: v for v in tf.global_variables()}
        gradients = tf.gradients(tf.reduce_sum(tf.cast(y, tf.float64) * dy), [inputs, by_name["gamma"], by_name["beta"]])
        with oracles.session() as sess:
            oracles.initialize(sess)
            outputs = sess.run([y] + gradients)
            sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            return outputs + sess.run([by_name["moving_mean"], by_name["moving_variance"]])


@pytest.mark.parametrize("shape,axis,dtype,fused,unbiased", [
    ((2, 4, 5, 3), -1, np.float32, None, True), ((2, 4, 5, 3), -1, np.float32, False, False),
    ((2, 4, 5, 3), -1, np.float64, None, False), ((6, 3), -1, np.float32, None, False),
    ((2, 5, 3), -1, np.float64, None, False), ((2, 3, 4, 5), 1, np.float32, None, True),
    ((2, 3, 4, 5), 1, np.float64, None, False), ((2, 2, 2, 2, 3), -1, np.float32, None, False)])
def test_training_equals_numpy_and_the_variance_is_unbiased_where_tensorflows_is(shape, axis, dtype, fused, unbiased):
    x, dy = x_of(shape, dtype), x_of(shape, np.float64, 1)
    gamma = np.linspace(.5, 2, 3)
    expected = oracles.BatchNorm([x], gamma, gamma - 1, 1e-3, [dy], axis)
    y, dx, dgamma, dbeta, mean, variance = trained(x, dy, axis=axis, fused=fused)
    tolerance = 1e-5 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(y, expected.y[0], atol=tolerance)
    np.testing.assert_allclose(dx, expected.dx[0], atol=tolerance * 10)
    np.testing.assert_allclose(dgamma, expected.dgamma, atol=tolerance * 100)
    np.testing.assert_allclose(dbeta, expected.dbeta, atol=tolerance * 100)
    np.testing.assert_allclose(mean, .01 * expected.mean, atol=tolerance)
    np.testing.assert_allclose(variance, .99 + .01 * (expected.unbiased if unbiased else expected.variance), rtol=1e-6)


def test_training_equals_tensorflows_fused_op():
    x, dy = x_of((2, 4, 5, 3)), x_of((2, 4, 5, 3), np.float64, 1)
    gamma = np.linspace(.5, 2, 3)
    y, dx, dgamma, dbeta, mean, variance = trained(x, dy, momentum=0.)
    inputs, scale, offset = tf.constant(x), tf.constant(gamma, tf.float32), tf.constant(gamma - 1, tf.float32)
    out = tf.nn.fused_batch_norm(inputs, scale, offset, epsilon=1e-3, is_training=True)
    gradients = tf.gradients(tf.reduce_sum(tf.cast(out[0], tf.float64) * dy), [inputs, scale, offset])
    for got, expected in zip([y, mean, variance, dx, dgamma, dbeta], oracles.evaluate(list(out[:3]) + gradients)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("shape,axis", [((2, 4, 5, 3), -1), ((2, 3, 4, 5), 1), ((7, 3), -1)])
def test_inference_equals_tensorflows_formula(sync, shape, axis):
    x = x_of(shape)
    vectors = [np.float32(v) for v in (np.linspace(-1, 1, 3), np.linspace(.5, 3, 3), np.linspace(2, 1, 3), np.ones(3))]
    mean, variance, gamma, beta = vectors
    y = towers.layers.batch_normalization(
        tf.constant(x), axis=axis, sync=sync, epsilon=1e-2, moving_mean_initializer=tf.constant_initializer(mean),
        moving_variance_initializer=tf.constant_initializer(variance), gamma_initializer=tf.constant_initializer(gamma),
        beta_initializer=tf.constant_initializer(beta))
    inputs = tf.constant(x if axis == -1 else np.moveaxis(x, 1, -1))
    expected = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-2)
    y, expected = oracles.evaluate([y, expected])
    np.testing.assert_allclose(y, expected if axis == -1 else np.moveaxis(expected, -1, 1), atol=1e-5)
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_halves(dtype):
    x = np.float64(x_of((4, 3, 3, 3)).astype(np.float16))
    if dtype == tf.bfloat16:
        x = np.float64((x_of((4, 3, 3, 3)).view(np.uint32) & np.uint32(0xffff0000)).view(np.float32))
    expected = oracles.BatchNorm([x], np.linspace(.5, 2, 3), np.linspace(-.5, 1, 3), 1e-3, [np.ones_like(x)])
    y, _, _, dbeta, mean, variance = trained(x, np.ones_like(x), dtype, momentum=0.)
    np.testing.assert_allclose(np.float64(y), expected.y[0], atol=.004 if dtype == tf.float16 else .03)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-5)
    np.testing.assert_allclose(variance, expected.unbiased, rtol=1e-5)
    assert mean.dtype == np.float32


def test_each_tower_normalises_by_its_own_batch():
    parts = [x_of((3, 2, 2, 3), seed=i) + i for i in range(2)]
    ys = towers.build(lambda x: towers.layers.batch_normalization(x), [tf.constant(p) for p in parts], CPUS[:2],
                      training=True)
    assert not [op for op in tf.get_default_graph().get_operations() if op.name.startswith("merge")]
    for y, part in zip(oracles.evaluate(ys), parts):
        np.testing.assert_allclose(y, oracles.BatchNorm([part], 1, 0, 1e-3).y[0], atol=1e-5)


def test_sync_on_and_off_have_the_same_variables():
    names = []
    for layer in (towers.sync_bn, towers.layers.batch_normalization,
                  lambda x: towers.layers.batch_normalization(x, sync=True)):
        with tf.Graph().as_default():
            layer(layer(tf.ones([2, 3])))
            names.append([v.op.name for v in tf.global_variables()])
    assert names[0] == names[1] == names[2] == [scope + "/" + name for scope in (
        "batch_normalization", "batch_normalization_1") for name in ("gamma", "beta", "moving_mean", "moving_variance")]


def test_sync_by_argument_is_sync_bn():
    parts = [x_of((3, 3), np.float64, seed=i) + i for i in range(2)]
    ys = towers.build(lambda x: towers.layers.batch_normalization(x, sync=True, statistics="concat"),
                      [tf.constant(part) for part in parts], CPUS[:2], training=True)
    for y, expected in zip(oracles.evaluate(ys), oracles.BatchNorm(parts, 1, 0, 1e-3).y):
        np.testing.assert_allclose(y, expected, atol=1e-10)


@pytest.mark.parametrize("layer", [towers.sync_bn, towers.layers.batch_normalization])
def test_training_none_is_the_towers(layer):
    for training in (True, False):
        with tf.Graph().as_default():
            towers.build(layer, [tf.ones([2, 3])] * 2, CPUS[:2], training=training)
            assert bool(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == training


@pytest.mark.parametrize("training", [1, 0, np.bool_(True), tf.constant])
def test_training_as_a_number_or_constant(training):
    value = training(True) if callable(training) and not isinstance(training, np.bool_) else training
    towers.layers.batch_normalization(tf.ones([2, 3]), training=value)
    assert bool(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == (training != 0)


def test_trainable_regularisers_and_constraints():
    towers.sync_bn(tf.ones([2, 3]), trainable=False, name="frozen")
    towers.sync_bn(tf.ones([2, 3]), name="regularised", gamma_regularizer=lambda v: 2. * tf.reduce_sum(v),
                   beta_regularizer=lambda v: tf.reduce_sum(v + 1.), gamma_constraint=tf.nn.relu)
    assert [v.op.name for v in tf.trainable_variables()] == ["regularised/gamma", "regularised/beta"]
    assert tf.trainable_variables()[0].constraint is tf.nn.relu
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert sorted(oracles.evaluate(losses)) == [3., 6.]


def test_a_scopes_regulariser_is_for_gamma_and_beta_only():
    with tf.variable_scope("scope", regularizer=lambda v: tf.reduce_sum(v)):
        towers.sync_bn(tf.ones([2, 3]), momentum=None)
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 2


@pytest.mark.skipif(not oracles.HAS_TF_LAYERS, reason="TensorFlow 2.16 and newer have no tf.layers")
@pytest.mark.parametrize("shape,kwargs", [
    ((2, 4, 5, 3), {}), ((2, 4, 5, 3), dict(fused=False)), ((6, 3), {}), ((2, 4, 5, 3), dict(momentum=.5, epsilon=.1)),
    ((2, 4, 5, 3), dict(scale=False)), ((2, 4, 5, 3), dict(center=False)), ((2, 3, 5), {})])
def test_equals_tf_layers(shape, kwargs):
    results = []
    for layer in (towers.layers.batch_normalization, tf.layers.batch_normalization):
        with tf.Graph().as_default():
            x = tf.constant(x_of(shape))
            y = layer(x, training=True, **kwargs)
            gradients = tf.gradients(tf.reduce_sum(tf.sin(y)), [x] + tf.trainable_variables())
            with oracles.session() as sess:
                oracles.initialize(sess)
                values = sess.run([y] + gradients)
                sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
                results.append((values, sess.run({v.op.name: v for v in tf.global_variables()})))
    for got, expected in zip(results[0][0], results[1][0]):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)
    assert list(results[0][1]) == list(results[1][1])
    for name, value in results[0][1].items():
        np.testing.assert_allclose(value, results[1][1][name], rtol=1e-5, atol=1e-6, err_msg=name)
