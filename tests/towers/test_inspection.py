"""What `towers.inspect` reports of sound graphs, and that it finds each fault it is for."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles


def model(x):
    for name in ("one", "two"):
        x = towers.layers.conv2d(x, 4, 3, padding="same", use_bias=False, name=name)
        x = tf.nn.relu(towers.sync_bn(x, name=name + "_bn"))
    return tf.reduce_mean(tf.square(x))


def build(num_towers, model_fn=model):
    images = tf.constant(np.random.RandomState(0).randn(6, 5, 5, 3), tf.float32)
    return towers.build_train_step(model_fn, towers.split_batch(images, num_towers),
                                   tf.train.MomentumOptimizer(.1, .9), oracles.CPUS[:num_towers])


@pytest.mark.parametrize("num_towers", [1, 3])
def test_a_sound_graph(num_towers):
    with tf.Graph().as_default() as graph:
        build(num_towers)
        found = towers.inspect(graph)
    assert found.problems == [] and found.written_more_than_once == {}
    assert [(tower.scope, tower.index) for tower in found.towers] == [("", i) for i in range(num_towers)]
    assert [tower.devices[0] for tower in found.towers] == ["/device:CPU:%d" % i for i in range(num_towers)]
    assert found.sync_layers == ["one_bn", "two_bn"]
    assert sorted(name for op in found.update_ops for name in op.variables) == [
        "one_bn/moving_mean", "one_bn/moving_variance", "two_bn/moving_mean", "two_bn/moving_variance"]
    assert (found.bytes_across_devices > 0) == (num_towers > 1)
    assert "problems                 none" in str(found)


def test_only_vectors_cross_devices():
    with tf.Graph().as_default():
        small = build(2) and towers.inspect()
    with tf.Graph().as_default():
        images = tf.ones([6, 50, 50, 3])
        towers.build_train_step(model, towers.split_batch(images, 2), tf.train.MomentumOptimizer(.1, .9), oracles.CPUS[:2])
        large = towers.inspect()
    growth = 3 * (50 * 50 - 5 * 5) * 3 * 4  # tower 1's three images of three channels, and nothing else, are larger
    assert large.bytes_across_devices - small.bytes_across_devices in (0, growth)


def test_a_restored_graph_reads_the_same(tmp_path):
    with tf.Graph().as_default():
        build(2)
        expected = str(towers.inspect())
        tf.train.export_meta_graph(str(tmp_path / "graph.meta"))
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(tmp_path / "graph.meta"))
        assert str(towers.inspect(graph)) == expected


def test_a_variable_written_twice_is_found():
    def writes(x):
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([tf.assign_add(total, 1.)]):  # in every tower, past UPDATE_OPS
            return model(tf.identity(x))

    with tf.Graph().as_default():
        build(3, writes)
        found = towers.inspect()
    assert list(found.written_more_than_once) == ["total"] and len(found.written_more_than_once["total"]) == 3
    assert "variable total is written 3 times in one step" in found.problems[0]


def test_update_ops_that_nothing_waits_for_are_found():
    with tf.Graph().as_default():
        losses = towers.build(model, towers.split_batch(tf.ones([6, 5, 5, 3]), 2), oracles.CPUS[:2], training=True)
        tf.train.MomentumOptimizer(.1, .9).minimize(tf.add_n(losses))
        problems = towers.inspect().problems
    assert sum("is run by no train op" in problem for problem in problems) == 4


def test_update_ops_run_beside_the_apply_ops_are_found():
    with tf.Graph().as_default():
        losses = towers.build(model, towers.split_batch(tf.ones([6, 5, 5, 3]), 2), oracles.CPUS[:2], training=True)
        apply_op = tf.train.MomentumOptimizer(.1, .9).minimize(tf.add_n(losses))
        tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)[:] = [
            tf.group(apply_op, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))]
        problems = towers.inspect().problems
    assert problems and all("does not wait for 4 update op(s)" in problem for problem in problems)


def test_a_variable_named_after_a_tower_is_found():
    with tf.Graph().as_default():
        with tf.variable_scope("tower_1"):
            tf.get_variable("w", [2])
        assert "tower_1/w is named after a tower" in towers.inspect().problems[0]


def test_a_backward_pass_through_other_towers_is_found():
    with tf.Graph().as_default():
        losses = towers.build(model, towers.split_batch(tf.ones([6, 5, 5, 3]), 3), oracles.CPUS[:3], training=True)
        optimizer = tf.train.GradientDescentOptimizer(.1)
        variables = tf.trainable_variables()
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            gradients = [tf.gradients(loss, variables) for loss in losses]  # one backward pass a loss
            optimizer.apply_gradients(list(zip([tf.add_n(g) for g in zip(*gradients)], variables)))
        assert any("backward for" in problem for problem in towers.inspect().problems)
