"""Recomputed activations: the same gradients to the bit, fewer activations kept, and computed again when they are due."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randn(4, 32, 32, 3).astype(np.float32)


def block(x, channels, dilation):
    y = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(x, channels, 1, use_bias=False)))
    y = tf.pad(y, [[0, 0], [dilation, dilation], [dilation, dilation], [0, 0]])
    y = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(y, channels, 3, dilation_rate=dilation, use_bias=False)))
    y = towers.sync_bn(towers.layers.conv2d(y, 4 * channels, 1, use_bias=False))
    if x.shape.as_list()[3] != 4 * channels:
        x = towers.sync_bn(towers.layers.conv2d(x, 4 * channels, 1, use_bias=False))
    return tf.nn.relu(x + y)


def residual(images, num_blocks=3):
    x = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(images, 8, 3, padding="same", use_bias=False)))
    x = towers.layers.max_pooling2d(x, 2, 2)
    for i in range(num_blocks):
        x = block(x, 8, 1 + i % 2)
    x = tf.concat([x, tf.tanh(towers.layers.conv2d(x, 8, 1))], axis=3)
    x = towers.layers.dropout(x, .3, noise_shape=(None, 1, 1, None), seed=1)
    return tf.reduce_mean(tf.square(towers.layers.conv2d(x, 2, 3, padding="same")))


def controlled(images):
    """Reads activations in control flow, in a merge and by their shapes, too."""
    x = tf.nn.elu(towers.sync_bn(towers.layers.conv2d(images, 8, 3, padding="same")))
    x = tf.cond(tf.reduce_mean(images) > 100, lambda: x, lambda: tf.nn.sigmoid(x) * x)
    y = tf.nn.leaky_relu(towers.layers.batch_normalization(towers.layers.conv2d(x, 8, 3, padding="same"), fused=True))
    total = towers.all_sum(tf.reduce_mean(y, [0, 1, 2]))
    z = tf.image.resize_bilinear(tf.nn.relu6(towers.sync_bn(x + y)), tf.shape(images)[1:3] // 2)
    return tf.reduce_mean(tf.square(z)) + tf.reduce_sum(tf.square(total)) + tf.reduce_mean(y[:, ::2])


def shared(images):
    """One activation with many readers, and a layer used twice."""
    x = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(images, 8, 3, padding="same", name="c")))
    parts = [tf.nn.relu(towers.sync_bn(towers.layers.conv2d(x, 8, 3, padding="same", name="d", reuse=i > 0), name="bn%d" % i))
             for i in range(3)]
    return tf.reduce_mean(tf.square(tf.cast(tf.concat(parts + [x, parts[0] - x, parts[1] * parts[2]], 3), tf.float32)))


def build(model, num_towers, recompute, **kwargs):
    tf.set_random_seed(1)
    return towers.build_train_step(
        model, towers.split_batch(tf.constant(IMAGES), num_towers), tf.train.MomentumOptimizer(.01, .9),
        oracles.CPUS[:num_towers], recompute=recompute, **kwargs)


def run(model, num_towers, recompute, **kwargs):
    """Losses of a few steps, the gradients of the first and the variables after the last."""
    with tf.Graph().as_default():
        step = build(model, num_towers, recompute, **kwargs)
        with oracles.session() as sess:
            oracles.initialize(sess)
            gradients = sess.run([[g for g, _ in step.grads_and_vars], step.train_op])[0]
            oracles.initialize(sess)
            losses = [sess.run([step.loss, step.train_op])[0] for _ in range(3)]
            return gradients, losses, sess.run(tf.global_variables())


@pytest.mark.parametrize("model,num_towers", [
    pytest.param(residual, 2, marks=pytest.mark.long), (controlled, 1), (controlled, 2), (shared, 1), (shared, 2)])
def test_gradients_losses_and_variables_are_the_same_to_the_bit(model, num_towers):
    expected, got = (run(model, num_towers, recompute) for recompute in (False, True))
    assert expected[1][-1] < expected[1][0]
    assert got[1] == expected[1]
    for part in (0, 2):
        assert all(np.array_equal(a, b) for a, b in zip(expected[part], got[part]))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_too(precision):
    expected, got = (run(shared, 2, recompute, precision=precision) for recompute in (False, True))
    assert got[1] == expected[1] and np.isfinite(got[1]).all()


def kept(graph):
    """The activations that gradients read: a dict from name to elements."""
    numbers = {op: i for i, op in enumerate(graph.get_operations())}
    first = min(i for op, i in numbers.items() if op.name.startswith("gradients/"))
    found = {}
    for op, number in numbers.items():
        if number >= first and op.name.startswith(("gradients/", "recompute/")):
            waits = [source for source in list(op.control_inputs) + [t.op for t in op.inputs] if numbers[source] >= first]
            for tensor in op.inputs:
                if waits and numbers[tensor.op] < first and tensor.shape.ndims == 4 and tensor.shape.num_elements() >= 4096 \
                        and tensor.op.type != "ReadVariableOp":
                    found[tensor.name] = tensor.shape.num_elements()
    return found


@pytest.mark.long
def test_outputs_of_convolutions_and_every_second_sum_are_kept():
    sizes = {}
    for recompute in (False, True):
        with tf.Graph().as_default() as graph:
            build(lambda x: residual(x, 6), 2, recompute)
            found = kept(graph)
            sizes[recompute] = sum(found.values())
            if recompute:
                types = {name: graph.get_tensor_by_name(name).op.type for name in found}
                assert set(types.values()) <= {"Conv2D", "AddV2", "Add", "BiasAdd", "MaxPool", "RealDiv", "SplitV"}, types
                assert len([t for t in types.values() if t.startswith("Add")]) == 2 * 6 / 2
    assert sizes[True] < .6 * sizes[False]


def test_copies_wait_for_the_backward_pass():
    with tf.Graph().as_default() as graph:
        build(residual, 2, True)
        copies = [op for op in graph.get_operations() if op.name.startswith("recompute/")]
        assert len(copies) > 50
        for op in copies:
            assert any(source.name.startswith("gradients/") for source in op.control_inputs), op.name
            assert op.device and op.device == graph.get_operation_by_name(op.name[len("recompute/"):]).device


def test_without_it_there_are_no_copies():
    with tf.Graph().as_default() as graph:
        build(residual, 2, False)
        assert not [op for op in graph.get_operations() if op.name.startswith("recompute/")]
