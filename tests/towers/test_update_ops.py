"""Update ops of all towers: gathered, one a variable, and awaited by every averaged gradient."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from absl import logging

import towers
from tests.towers import oracles
from towers import update_ops

CPUS = oracles.CPUS


@pytest.fixture
def warnings(monkeypatch):
    """The lines that absl would warn with."""
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: lines.append(text % args))
    return lines


def train_step(model, num_towers=3, rows=4):
    xs = [tf.constant(np.random.RandomState(i).randn(rows, 5, 5, 2) + i, tf.float32) for i in range(num_towers)]
    return towers.build_train_step(model, xs, tf.train.GradientDescentOptimizer(.1), CPUS[:num_towers])


def counter(name, **kwargs):
    return tf.get_variable(name, [], initializer=tf.zeros_initializer(), trainable=False, **kwargs)


def loss_of(x):
    return tf.reduce_mean(x * tf.get_variable("w", [], initializer=tf.ones_initializer()))


def state_after(step, steps=1):
    with oracles.session() as sess:
        oracles.initialize(sess)
        for _ in range(steps):
            sess.run(step.train_op)
        return sess.run({v.op.name: v for v in tf.global_variables()})


def test_one_update_op_a_variable_in_the_collection_and_the_step():
    def model(x):
        return loss_of(towers.sync_bn(towers.layers.batch_normalization(x)))

    step = train_step(model)
    collection = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert step.update_ops == collection and len(collection) == 4
    written = [update_ops.written_variables(update_ops.as_op(op)) for op in collection]
    assert sorted(sum(map(sorted, written), [])) == sorted(
        v.op.name for v in tf.global_variables() if "moving" in v.name)


def test_update_ops_that_a_model_adds_run_once_a_step(warnings):
    def model(x):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(counter("steps"), 1.))
        return loss_of(towers.sync_bn(x))

    step = train_step(model)
    assert state_after(step, 3)["steps"] == 3.
    assert len(warnings) == 1 and "steps" in warnings[0]


@pytest.mark.parametrize("write", [
    lambda v: tf.assign_add(v, 1.), lambda v: tf.assign_add(v, 1.).op, lambda v: tf.group(tf.assign_add(v, 1.)),
    lambda v: tf.identity(tf.assign_add(v, 1.)), lambda v: tf.assign(v, v + 1.), lambda v: v.assign_add(1.),
    lambda v: tf.cond(tf.constant(True), lambda: tf.assign_add(v, 1.), lambda: tf.identity(v)),
    lambda v: tf.tuple([tf.assign_add(v, 1.)])[0],
    lambda v: tf.raw_ops.AssignAddVariableOp(resource=v.handle, value=tf.constant(1.))])
def test_every_way_to_write_is_seen_and_done_once(write, control_flow):
    def model(x):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, write(counter("steps")))
        return loss_of(x)

    assert state_after(train_step(model), 2)["steps"] == 2.


def test_ops_that_write_different_variables_are_all_kept(warnings):
    def model(x):
        index = towers.current_tower().index
        mine = [counter("count_%d" % i) for i in range(3)][index]
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(mine, index + 1.))
        return loss_of(x)

    step = train_step(model)
    state = state_after(step)
    assert [state["count_%d" % i] for i in range(3)] == [1., 2., 3.] and not warnings


def test_ops_that_write_nothing_are_all_kept():
    def model(x):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op(name="mine"))
        return loss_of(x)

    assert len(train_step(model).update_ops) == 3


def test_update_ops_of_other_models_in_the_graph_are_not_run():
    other = tf.get_variable("other", [], initializer=tf.zeros_initializer())
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(other, 1.))
    step = train_step(lambda x: loss_of(towers.sync_bn(x)))
    assert len(step.update_ops) == 2 and len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 3
    assert state_after(step)["other"] == 0.


@pytest.mark.skipif(not oracles.HAS_TF_LAYERS, reason="TensorFlow 2.16 and newer have no tf.layers")
@pytest.mark.parametrize("fused", [True, False])
def test_a_plain_tf_layers_batch_norm_is_updated_once_with_a_warning(fused, warnings):
    def model(x):
        return loss_of(tf.layers.batch_normalization(x, training=True, fused=fused, momentum=.9, name="plain"))

    step = train_step(model)
    x = np.random.RandomState(0).randn(4, 5, 5, 2)
    state = state_after(step)
    np.testing.assert_allclose(state["plain/moving_mean"], .1 * x.mean((0, 1, 2)), atol=1e-6)
    assert len(warnings) == 1 and "plain/moving_mean" in warnings[0] and "plain/moving_variance" in warnings[0]


def test_plain_batch_norm_keeps_tower_0s_statistics():
    x = np.random.RandomState(0).randn(4, 5, 5, 2)
    step = train_step(lambda inputs: loss_of(towers.layers.batch_normalization(inputs, momentum=.9, name="plain")))
    state = state_after(step)
    np.testing.assert_allclose(state["plain/moving_mean"], .1 * x.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(state["plain/moving_variance"], .9 + .1 * x.var((0, 1, 2)) * 100 / 99, rtol=1e-5)


def test_a_layer_used_twice_is_updated_twice_in_order():
    """As one device would where it runs them one after the other: first use, then second."""
    def model(x):
        y = towers.sync_bn(x, name="shared", momentum=.5)
        return loss_of(towers.sync_bn(3. * y + 2., name="shared", momentum=.5, reuse=True))

    step = train_step(model, 2)
    x = np.concatenate([np.random.RandomState(i).randn(4, 5, 5, 2) + i for i in range(2)])
    y = (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 1e-3)
    expected = .5 * (.5 * x.mean((0, 1, 2))) + .5 * (3 * y + 2).mean((0, 1, 2))
    assert len(step.update_ops) == 4
    for _ in range(4):
        np.testing.assert_allclose(state_after(step)["shared/moving_mean"], expected, rtol=1e-4)


def test_every_averaged_gradient_waits_for_every_update_op():
    def model(x):
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(counter("steps"), 1.))
        table = tf.get_variable("table", [4, 2])
        x = towers.sync_bn(towers.layers.conv2d(x, 3, 3))
        x = towers.layers.batch_normalization(x)
        return loss_of(x) + tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 1]))

    step = train_step(model)
    updates = set(update_ops.as_op(op) for op in step.update_ops)
    assert len(updates) == 5
    for gradient, variable in step.grads_and_vars:
        for op in oracles.ops_of(gradient):
            assert updates <= oracles.ancestors(op), variable.op.name


def test_averages_read_by_effect_come_after_the_updates():
    """Running an averaged gradient alone moves the moving averages: the gate is real at run time too."""
    step = train_step(lambda x: loss_of(towers.sync_bn(x, name="bn")))
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.grads_and_vars[-1][0])
        moving = [v for v in tf.global_variables() if "moving_mean" in v.name][0]
        assert (sess.run(moving) != 0).all()


def test_no_apply_op_runs_before_every_averaged_gradient():
    def model(x):
        return loss_of(towers.sync_bn(towers.layers.conv2d(x, 3, 3)))

    for optimizer in (tf.train.AdamOptimizer(.1), tf.train.MomentumOptimizer(.1, .9)):
        with tf.Graph().as_default():
            xs = [tf.ones([2, 5, 5, 2])] * 2
            step = towers.build_train_step(model, xs, optimizer, CPUS[:2],
                                           gradient_transform=lambda pairs: [(2. * g, v) for g, v in pairs])
            applies = [op for op in oracles.ancestors(step.train_op) if "Apply" in op.type]
            assert len(applies) == len(step.grads_and_vars)
            for apply in applies:
                before = oracles.ancestors(apply)
                for gradient, _ in step.grads_and_vars:
                    assert set(oracles.ops_of(gradient)) <= before


@pytest.mark.parametrize("num_towers", [1, 2, 4])
def test_backward_convolutions_grow_as_the_towers(num_towers):
    def model(x):
        for _ in range(3):
            x = tf.tanh(towers.sync_bn(towers.layers.conv2d(x, 2, 3, padding="same", use_bias=False)))
        return tf.reduce_mean(x)

    train_step(model, num_towers)
    types = [op.type for op in tf.get_default_graph().get_operations()]
    for kind in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput"):  # TensorFlow makes all, and prunes at run time
        assert types.count(kind) == 3 * num_towers, kind


def test_an_update_waits_until_every_tower_has_read_the_state_of_before():
    def model(x):
        state = tf.get_variable("state", [], x.dtype, tf.zeros_initializer(), trainable=False)
        w = tf.get_variable("w", [], x.dtype, tf.ones_initializer())
        read = state.read_value()
        if towers.current_tower().is_main:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(state, 1. + 0. * read).op)
        return w * tf.reduce_mean(x) + read

    step = train_step(model, 4)
    write, = [entry for entry in step.update_ops]
    handle = write.inputs[0]
    reads = [op for op in handle.consumers() if op.type == "ReadVariableOp" and op.name.startswith("tower_")
             and not op.name.startswith("tower_0/")]
    assert len(reads) == 3 and all(read in write.control_inputs for read in reads)


def test_a_read_that_waits_for_the_update_makes_no_cycle():
    def model(x):
        state = tf.get_variable("state", [], x.dtype, tf.zeros_initializer(), trainable=False)
        update = None
        if towers.current_tower().is_main:
            update = tf.assign_add(state, 1.).op
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
            gate = tf.zeros([], x.dtype)
            with tf.control_dependencies([update]):
                gate = tf.identity(gate)
        else:
            gate = tf.zeros([], x.dtype)
        gate = towers.all_sum(gate)
        with tf.control_dependencies([gate]):
            after = state.read_value()
        return tf.get_variable("w", [], x.dtype, tf.ones_initializer()) * tf.reduce_mean(x) + after

    step = train_step(model, 3)
    assert state_after(step)["state"] == 1.
