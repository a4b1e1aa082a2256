"""sync_bn on N towers is batch norm of the concatenated batch: forward, backward, moving statistics."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from tests.towers.sync_bn_step import STATISTICS, assert_equals_one_device, batches, tower_step


@pytest.mark.parametrize("num_towers,statistics,shape", [
    (n, statistics, shape) for n in (1, 2, 3, 4) for statistics in STATISTICS for shape in ((3, 5), (2, 3, 4, 5))
] + [(8, "sum", (2, 3, 4, 5)), (8, "concat", (3, 5))])
def test_any_number_of_towers_equals_one_device(statistics, num_towers, shape):
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
        tf.reset_default_graph()
        values = tower_step(batches([shape] * num_towers, dtype), statistics)
        assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [
    ("sum", np.float64, 1e-10), ("concat", np.float64, 1e-10), ("sum", np.float32, 1e-5)])
@pytest.mark.parametrize("shapes", [
    [(3, 4), (1, 4), (5, 4)], [(2, 3, 7), (1, 5, 7)], [(2, 2, 3, 2, 3), (1, 4, 1, 2, 3)],
    [(1, 6, 5, 3), (3, 2, 9, 3), (2, 1, 1, 3)]], ids=["rank2", "rank3", "rank5", "image_sizes"])
def test_uneven_batches_and_sizes_count_by_their_elements(statistics, dtype, tolerance, shapes):
    assert_equals_one_device(tower_step(batches(shapes, dtype), statistics), tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [("sum", np.float64, 1e-10), ("concat", np.float32, 1e-5)])
@pytest.mark.parametrize("shapes", [[(2, 3, 4, 5), (1, 3, 6, 2)], [(4, 3), (2, 3)], [(2, 3, 5), (2, 3, 4)]],
                         ids=["rank4", "rank2", "rank3"])
def test_axis_one(statistics, dtype, tolerance, shapes):
    assert_equals_one_device(tower_step(batches(shapes, dtype), statistics, axis=1), tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("axis,placeholders", [(-1, [None, None, None, 3]), (-1, [None, 4, None, 3]), (-1, [None, 3]),
                                               (1, [None, 3, None, None])])
def test_unknown_batch_and_image_sizes(statistics, axis, placeholders):
    shapes = {2: [(4, 3), (1, 3)], 4: [(2, 4, 5, 3), (1, 4, 2, 3)] if axis == -1 else [(2, 3, 4, 5), (1, 3, 2, 2)]}
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
        tf.reset_default_graph()
        values = tower_step(batches(shapes[len(placeholders)], dtype), statistics, axis=axis, placeholders=placeholders)
        assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [
    ("concat", np.float64, 1e-10), ("concat", np.float32, 1e-5), ("sum", np.float32, 1e-5)])
@pytest.mark.parametrize("sizes", [(3, 0), (0, 4), (0, 2, 0)])
@pytest.mark.parametrize("rank", [2, 4])
def test_towers_without_examples_change_nothing(statistics, dtype, tolerance, sizes, rank):
    shapes = [(size, 3, 2, 5)[:1] + ((5,) if rank == 2 else (3, 2, 5)) for size in sizes]
    values = tower_step(batches(shapes, dtype), statistics, placeholders=[None] + list(shapes[0][1:]))
    assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_no_example_on_any_tower_leaves_the_state_alone(statistics):
    values = tower_step(batches([(0, 2, 2, 3)] * 2, np.float32), statistics, placeholders=[None, 2, 2, 3])
    np.testing.assert_array_equal(values["state"]["bn/moving_mean"], np.zeros(3))
    np.testing.assert_array_equal(values["state"]["bn/moving_variance"], np.ones(3))


@pytest.mark.parametrize("channels,statistics", [(1, "sum"), (2, "concat"), (3, "sum"), (19, "concat"), (129, "sum")])
def test_widths_that_are_no_power_of_two(channels, statistics):
    assert_equals_one_device(tower_step(batches([(2, 2, 3, channels)] * 2, np.float32), statistics), 2e-5)


def test_the_moving_mean_is_written_once_a_step_whatever_the_number_of_towers():
    for num_towers in (1, 2, 3, 4, 8):
        tf.reset_default_graph()
        parts = batches([(2, 3, 3, 4)] * num_towers, np.float32)

        def model(x):
            y = towers.sync_bn(x, momentum=.9, name="bn")
            return tf.reduce_mean(tf.square(y))

        step = towers.build_train_step(model, [tf.constant(part) for part in parts],
                                       tf.train.GradientDescentOptimizer(0.), oracles.CPUS[:num_towers])
        expected = oracles.BatchNorm(parts, 1, 0, 1e-3)
        mean, variance = np.zeros(4), np.ones(4)
        with oracles.session() as sess:
            oracles.initialize(sess)
            for _ in range(3):
                sess.run(step.train_op)
                mean += .1 * (expected.mean - mean)
                variance += .1 * (expected.unbiased - variance)
            with tf.variable_scope("bn", reuse=True):
                moving = sess.run([tf.get_variable("moving_mean"), tf.get_variable("moving_variance")])
        np.testing.assert_allclose(moving[0], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moving[1], variance, rtol=1e-5)


def test_only_vectors_cross_devices():
    """No op on one device reads an activation of another, forward or backward."""
    channels = 6

    def model(x):
        y = towers.layers.conv2d(x, channels, 3, padding="same", use_bias=False)
        y = tf.tanh(towers.sync_bn(y))
        return tf.reduce_mean(tf.square(towers.layers.conv2d(y, channels, 3, padding="same", use_bias=False)))

    xs = [tf.zeros([2, 16, 16, channels]) for _ in range(3)]  # 3072 values each, in every layer
    step = towers.build_train_step(model, xs, tf.train.GradientDescentOptimizer(.1), oracles.CPUS[1:4])
    weights, inputs = 2 * 3 * 3 * channels * channels + 2 * channels, set(x.op for x in xs)  # gradients cross in one vector
    for op in tf.get_default_graph().get_operations():
        for tensor in op.inputs:
            if op.device and tensor.op.device and op.device != tensor.op.device and tensor.op not in inputs:
                assert tensor.dtype == tf.resource or tensor.shape.num_elements() <= weights, (op.name, tensor.name)
    assert step.loss.op.device.endswith("CPU:0")


@pytest.mark.parametrize("wrong,match", [
    (dict(statistics="mean"), "'sum' or 'concat'"), (dict(axis=0), "axis"), (dict(axis=7), "axis"),
    (dict(momentum=2.), "momentum"), (dict(epsilon=-1.), "epsilon"), (dict(renorm=True), "renorm"),
    (dict(virtual_batch_size=2), "virtual_batch_size"), (dict(training=tf.zeros), None),
    (dict(training=[True]), None)])
def test_wrong_arguments_are_refused(wrong, match):
    with pytest.raises((ValueError, TypeError), match=match):
        towers.sync_bn(tf.ones([2, 3]), **wrong)


@pytest.mark.parametrize("inputs", [np.ones([2, 3], np.int32), np.ones([3], np.float32)])
def test_wrong_inputs_are_refused(inputs):
    with pytest.raises(ValueError, match="inputs of batch normalisation"):
        towers.sync_bn(inputs)


def test_unknown_channels_are_refused():
    with pytest.raises(ValueError, match="channels"):
        towers.sync_bn(tf.placeholder(tf.float32, [2, None]))


def test_outside_a_build_it_is_one_tower():
    x = np.random.RandomState(0).randn(6, 3)
    y = towers.sync_bn(tf.constant(x), training=True)
    np.testing.assert_allclose(oracles.evaluate(y), oracles.BatchNorm([x], 1, 0, 1e-3).y[0], atol=1e-10)
