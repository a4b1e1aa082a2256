"""Gradients and statistics summed on any CPU, on a GPU or by NCCL: the same numbers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from towers import versions

IMAGES = np.random.RandomState(0).randn(4, 8, 8, 3).astype(np.float32)


def model(images):
    x = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(images, 16, 3, padding="same", use_bias=False)))
    x = towers.layers.conv2d(x, 512, 3)  # 73,728 weights: too many to be packed with others
    table = tf.get_variable("table", [5, 3])
    rows = tf.nn.embedding_lookup(table, [0, 2])  # sparse gradients are never reduced
    return tf.reduce_mean(tf.square(x)) + tf.reduce_sum(tf.square(rows))


def build(devices, **kwargs):
    tf.set_random_seed(1)
    parts = towers.split_batch(tf.constant(IMAGES), len(devices))
    return towers.build_train_step(model, parts, tf.train.MomentumOptimizer(.1, .9), devices, **kwargs)


def trained(devices, extra=(), **kwargs):
    """Losses of three steps, and the variables after them."""
    with tf.Graph().as_default():
        step = build(devices, **kwargs)
        with tf.Session(config=towers.session_config(list(devices) + list(extra))) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([step.loss, step.train_op])[0] for _ in range(3)]
            return losses + session.run(tf.global_variables())


def test_every_aggregation_device_gives_the_same_bits():
    devices = towers.tower_devices(3, "cpu")
    expected = trained(devices)
    for place in ("/cpu:1", "/cpu:5"):
        found = trained(devices, [place], aggregation_device=place)
        assert all(np.array_equal(a, b) for a, b in zip(expected, found))


def test_nccl_sums_dense_gradients_on_the_first_gpu_and_copies_the_rest():
    """The graph alone: without GPUs it does not run."""
    devices = ["/gpu:0", "/gpu:1", "/gpu:2"]
    with tf.Graph().as_default() as graph:
        step = build(devices, aggregation_device="/gpu:0", reduction="nccl")
        reduced = [op for op in graph.get_operations() if op.type == "NcclReduce"]
        assert len(reduced) == 2  # one packed vector, and the large kernel
        for op in reduced:
            assert op.device == "/device:GPU:0"
            assert [t.device for t in op.inputs] == ["/device:GPU:%d" % i for i in range(3)]
        assert sorted(t.shape.num_elements() for op in reduced for t in op.outputs) == [3 * 3 * 3 * 16 + 16 + 16 + 512, 73728]
        sparse = [g for g, v in step.grads_and_vars if v.op.name == "table"]
        assert isinstance(sparse[0], tf.IndexedSlices)
        waits = set(op for entry in step.update_ops for op in [getattr(entry, "op", entry)])
        for op in reduced:
            assert waits <= oracles.ancestors(op)


@pytest.mark.parametrize("devices, reduction, match", [
    (["/cpu:0", "/cpu:1"], "nccl", "on /cpu:0, /cpu:1; wanted two or more, each on a GPU"),
    (["/gpu:0"], "nccl", "on /gpu:0; wanted two or more"), (["/gpu:0", "/gpu:0"], "nccl", "each on a GPU of its own"),
    (["/cpu:0"], "ring", "reduction is 'ring'; wanted one of 'copy', 'nccl'")])
def test_wrong_reductions_are_refused(devices, reduction, match):
    with pytest.raises(ValueError, match=match):
        build(devices, reduction=reduction)


@pytest.mark.gpu
@pytest.mark.skipif(len(versions.visible_gpus()) < 2, reason="two GPUs are needed")
@pytest.mark.parametrize("how", [{}, {"aggregation_device": "/gpu:0"}, {"aggregation_device": "/gpu:0", "reduction": "nccl"}],
                         ids=["cpu", "gpu", "nccl"])
def test_on_gpus_every_aggregation_gives_the_numbers_of_the_cpu(how):
    expected, found = trained(towers.tower_devices(2, "cpu")), trained(towers.tower_devices(2, "gpu"), **how)
    for a, b in zip(expected, found):
        np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-5)
