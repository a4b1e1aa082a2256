"""sync_bn in its modes: training by tensor, inference, frozen, cumulative; second-order gradients; unused outputs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from tests.towers.sync_bn_step import STATISTICS, batches, tower_step


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_momentum_is_the_mean_of_all_batches(statistics, num_towers, dtype):
    random = np.random.RandomState(3)
    steps = [batches([(2, 4)] * num_towers, dtype, seed=seed, mean=random.randn()) for seed in range(5)]
    xs = [tf.placeholder(dtype, [None, 4]) for _ in range(num_towers)]
    towers.build(lambda x: towers.sync_bn(x, momentum=None, statistics=statistics), xs, oracles.CPUS[:num_towers],
                 training=True)
    names = {v.op.name: v for v in tf.global_variables()}
    with oracles.session() as sess:
        oracles.initialize(sess)
        for parts in steps:
            sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), dict(zip(xs, parts)))
        mean, variance, count = sess.run([names["batch_normalization/" + name]
                                          for name in ("moving_mean", "moving_variance", "num_updates")])
    expected = [oracles.BatchNorm(parts, 1, 0, 1e-3) for parts in steps]
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(mean, np.mean([e.mean for e in expected], 0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(variance, np.mean([e.unbiased for e in expected], 0), rtol=tolerance, atol=tolerance)
    assert count == 5


@pytest.mark.parametrize("scale,center", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_without_scale_or_center(scale, center, dtype, tolerance):
    parts = batches([(2, 3, 3, 4)] * 2, dtype)
    gamma = np.linspace(.5, 2, 4) if scale else np.ones(4)
    beta = np.linspace(-1, 1, 4) if center else np.zeros(4)
    values = tower_step(parts, gamma=gamma, beta=beta, scale=scale, center=center)
    names = set(v.op.name for v in tf.trainable_variables())
    assert names == set((["bn/gamma"] if scale else []) + (["bn/beta"] if center else []))
    for i in range(2):
        np.testing.assert_allclose(values["y"][i], values["expected"].y[i], atol=tolerance)
        np.testing.assert_allclose(values["dx"][i], values["expected"].dx[i], atol=tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_training_as_a_tensor_chooses_at_run_time(statistics, num_towers, dtype, tolerance):
    parts = batches([(3, 4)] * num_towers, dtype, mean=5.)
    training = tf.placeholder(tf.bool, [])
    xs = [tf.constant(part) for part in parts]
    mean0, variance0 = np.linspace(4, 6, 4), np.linspace(.5, 4, 4)

    def model(x):
        return towers.sync_bn(x, training=training, statistics=statistics, name="bn",
                              moving_mean_initializer=tf.constant_initializer(mean0),
                              moving_variance_initializer=tf.constant_initializer(variance0))

    ys = towers.build(model, xs, oracles.CPUS[:num_towers], training=True)
    dxs = tf.gradients([tf.reduce_sum(tf.sin(y)) for y in ys], xs)
    state = [v for v in tf.global_variables() if "moving" in v.name]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with oracles.session() as sess:
        for on in (False, True):
            oracles.initialize(sess)
            values, gradients = sess.run([ys, dxs], {training: on})
            sess.run(updates, {training: on})
            after = {v.op.name: sess.run(v) for v in state}
            frozen = [(part - mean0) / np.sqrt(variance0 + 1e-3) for part in parts]
            expected = oracles.BatchNorm(parts, 1, 0, 1e-3, [np.cos(np.float64(y)) for y in values])
            for i in range(num_towers):
                np.testing.assert_allclose(values[i], expected.y[i] if on else frozen[i], atol=tolerance, rtol=tolerance)
                dx = expected.dx[i] if on else np.cos(frozen[i]) / np.sqrt(variance0 + 1e-3)
                np.testing.assert_allclose(gradients[i], dx, atol=tolerance)
            rate = .01 if on else 0
            np.testing.assert_allclose(after["bn/moving_mean"], mean0 + rate * (expected.mean - mean0), rtol=1e-6)
            np.testing.assert_allclose(after["bn/moving_variance"],
                                       variance0 + rate * (expected.unbiased - variance0), rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
def test_inference_uses_the_moving_statistics_and_makes_no_merge(axis, dtype):
    x = np.random.RandomState(0).randn(2, 4, 4, 4)
    mean, variance = np.linspace(-1, 1, 4), np.linspace(.5, 2, 4)
    kwargs = dict(moving_mean_initializer=tf.constant_initializer(mean),
                  moving_variance_initializer=tf.constant_initializer(variance))
    inputs = [tf.constant(x, dtype)] * 3
    ys = towers.build(lambda t: towers.sync_bn(t, axis=axis, **kwargs), inputs, oracles.CPUS[:3])
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    for i, y in enumerate(ys):
        others = set("tower_%d/" % j for j in range(1, 3) if j != i)
        for op in oracles.ancestors(y.op):
            assert not any(op.name.startswith(other) for other in others) and "merge/" not in op.name
    shape = (-1, 1, 1) if axis == 1 else (-1,)
    expected = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-3)
    tolerance = {tf.float16: 5e-3, tf.float32: 1e-5, tf.float64: 1e-12}[dtype]
    for y in oracles.evaluate(ys):
        np.testing.assert_allclose(np.float64(y), expected, atol=tolerance)


def test_frozen_statistics_and_frozen_affine():
    """training=False inside a training build freezes the statistics, trainable=False the affine part too."""
    def model(x):
        y = towers.sync_bn(x, training=False, name="statistics")
        y = towers.sync_bn(y, training=False, trainable=False, name="both")
        return tf.reduce_sum(tf.sin(y * tf.get_variable("w", initializer=2.)))

    step = towers.build_train_step(model, [tf.ones([2, 3])] * 2, tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:2])
    assert step.update_ops == []
    assert set(v.op.name for v in tf.trainable_variables()) == {"statistics/gamma", "statistics/beta", "w"}
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        state = {v.op.name: sess.run(v) for v in tf.global_variables()}
    np.testing.assert_array_equal(state["statistics/moving_mean"], np.zeros(3))
    np.testing.assert_array_equal(state["both/gamma"], np.ones(3))
    assert (state["statistics/gamma"] != 1).all()


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers,dtype,tolerance", [
    (1, tf.float32, 1e-4), (3, tf.float64, 1e-9), (3, tf.float32, 1e-4)])
def test_gradient_penalty(statistics, num_towers, dtype, tolerance):
    """Second-order gradients: each tower's |d loss_i / d x_i|^2, written in the model, against one composed device."""
    random = np.random.RandomState(4)
    x, weight = random.randn(2 * num_towers, 3, 3, 4), random.randn(4, 4)

    def penalty(loss, inputs):
        return loss + tf.reduce_sum(tf.square(tf.gradients(loss, inputs)[0]))

    def model(inputs):
        w = tf.get_variable("w", initializer=tf.constant(weight, dtype))
        y = towers.sync_bn(tf.tensordot(inputs, w, 1), statistics=statistics, name="bn")
        return penalty(tf.reduce_sum(tf.sin(y)), inputs)

    step = towers.build_train_step(model, towers.split_batch(tf.constant(x, dtype), num_towers),
                                   tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:num_towers])
    parts = tf.split(tf.constant(x), num_towers)
    w, gamma, beta = tf.constant(weight), tf.ones([4], tf.float64), tf.zeros([4], tf.float64)
    h = tf.tensordot(tf.concat(parts, 0), w, 1)
    mean = tf.reduce_mean(h, [0, 1, 2])
    variance = tf.reduce_mean(tf.square(h - mean), [0, 1, 2])
    y = tf.split((h - mean) / tf.sqrt(variance + 1e-3) * gamma + beta, num_towers)
    losses = [penalty(tf.reduce_sum(tf.sin(y[i])), parts[i]) for i in range(num_towers)]
    expected = tf.gradients(tf.add_n(losses) / num_towers, [w, gamma, beta])
    got = {variable.op.name: gradient for gradient, variable in step.grads_and_vars}
    got = [got["w"], got["bn/gamma"], got["bn/beta"]]
    (loss, got), (expected_losses, expected) = oracles.evaluate([(step.tower_losses, got), (losses, expected)])
    np.testing.assert_allclose(loss, expected_losses, rtol=tolerance)
    for gradient, expected_gradient in zip(got, expected):
        np.testing.assert_allclose(gradient, expected_gradient, atol=tolerance * np.abs(expected_gradient).max())


@pytest.mark.parametrize("where", ["one tower", "all towers"])
def test_an_output_that_the_loss_does_not_use_changes_nothing_else(where):
    parts = batches([(3, 4)] * 2)

    def model(x):
        unused = towers.sync_bn(x, name="unused")
        y = towers.sync_bn(x * tf.get_variable("w", [4], x.dtype, tf.ones_initializer()), name="used")
        loss = tf.reduce_mean(tf.sin(y))
        used = where == "one tower" and towers.current_tower().index == 1
        return loss + (tf.reduce_mean(tf.square(unused)) if used else 0.)

    step = towers.build_train_step(model, [tf.constant(part) for part in parts],
                                   tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:2])
    gradients = {v.op.name: g for g, v in step.grads_and_vars}
    with oracles.session() as sess:
        oracles.initialize(sess)
        gradients, _ = sess.run([gradients, step.train_op])
        state = {v.op.name: sess.run(v) for v in tf.global_variables()}
    expected = oracles.BatchNorm(parts, 1, 0, 1e-3)
    np.testing.assert_allclose(state["unused/moving_mean"], .01 * expected.mean, rtol=1e-10)
    dys = [np.cos(y) / (2 * 12) for y in expected.y]
    expected = oracles.BatchNorm(parts, 1, 0, 1e-3, dys)
    np.testing.assert_allclose(gradients["used/gamma"], expected.dgamma, rtol=1e-9)
    np.testing.assert_allclose(gradients["w"], sum((dx * x).sum(0) for dx, x in zip(expected.dx, parts)), atol=1e-10)
    assert ("unused/gamma" in gradients) == (where == "one tower")
