"""Gradients by tower: dense, sparse, missing, through control flow and through reads outside the towers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from absl import logging

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


@pytest.fixture
def warnings(monkeypatch):
    """The lines that absl would warn with."""
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: lines.append(text % args))
    return lines


def train_step(model, inputs, optimizer=None, **kwargs):
    return towers.build_train_step(model, inputs, optimizer or tf.train.GradientDescentOptimizer(1.),
                                   CPUS[:len(inputs)], **kwargs)


def averaged(step):
    return {v.op.name: g for g, v in step.grads_and_vars}


IDS = [np.array([[0, 2], [2, 2]]), np.array([[5, 0]]), np.array([[1, 2]])]
TABLE = np.random.RandomState(0).randn(7, 3)


@pytest.mark.parametrize("lookup", ["embedding_lookup", "gather"])
def test_gradients_of_embeddings_stay_sparse_and_average_right(lookup):
    def model(ids):
        table = tf.get_variable("table", initializer=tf.constant(TABLE))
        rows = tf.nn.embedding_lookup(table, ids) if lookup == "embedding_lookup" else tf.gather(table, ids)
        return tf.reduce_sum(tf.square(rows))

    step = train_step(model, [tf.constant(ids) for ids in IDS])
    gradient = averaged(step)["table"]
    assert isinstance(gradient, tf.IndexedSlices)
    assert all(isinstance(tower[0], tf.IndexedSlices) for tower in step.tower_gradients)
    expected = np.zeros_like(TABLE)
    for ids in IDS:
        np.add.at(expected, ids.ravel(), 2 * TABLE[ids.ravel()] / len(IDS))
    with oracles.session() as sess:
        oracles.initialize(sess)
        values, indices = sess.run([gradient.values, gradient.indices])
        dense = np.zeros_like(TABLE)
        np.add.at(dense, indices, values)
        np.testing.assert_allclose(dense, expected, rtol=1e-12)
        sess.run(step.train_op)
        np.testing.assert_allclose(sess.run(tf.trainable_variables()[0]), TABLE - expected, rtol=1e-12)
    dense_ops = [op.name for op in tf.get_default_graph().get_operations()
                 if op.type in ("UnsortedSegmentSum", "ReadVariableOp") and op.name.startswith(("tower", "gradients"))]
    assert not dense_ops, "the table was made dense"


def test_an_embedding_that_is_read_whole_too():
    def model(ids):
        table = tf.get_variable("table", initializer=tf.constant(TABLE))
        return tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids))) + tf.reduce_sum(tf.sin(table))

    step = train_step(model, [tf.constant(ids) for ids in IDS])
    expected = np.cos(TABLE)
    for ids in IDS:
        np.add.at(expected, ids.ravel(), 2 * TABLE[ids.ravel()] / len(IDS))
    gradient = oracles.evaluate(tf.convert_to_tensor(averaged(step)["table"]))
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


@pytest.mark.parametrize("optimizer", [lambda: tf.train.AdamOptimizer(.1), lambda: tf.train.MomentumOptimizer(.1, .9)])
def test_sparse_steps_equal_those_of_one_device(optimizer):
    def loss(table, ids):
        return tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))

    states = []
    for on_towers in (False, True):
        with tf.Graph().as_default():
            if on_towers:
                train_op = train_step(lambda ids: loss(tf.get_variable("t", initializer=tf.constant(TABLE)), ids),
                                      [tf.constant(ids) for ids in IDS], optimizer()).train_op
            else:
                table = tf.get_variable("t", initializer=tf.constant(TABLE), use_resource=True)
                train_op = optimizer().minimize(loss(table, tf.constant(np.concatenate(IDS))) / 3)
            with oracles.session() as sess:
                oracles.initialize(sess)
                for _ in range(3):
                    sess.run(train_op)
                states.append(sess.run(tf.trainable_variables()[0]))
    np.testing.assert_allclose(states[1], states[0], rtol=1e-9)


def test_partitioned_embeddings():
    def model(ids):
        with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
            table = tf.get_variable("table", [8, 3], initializer=tf.ones_initializer())
        return tf.reduce_sum(tf.nn.embedding_lookup(table, ids))

    step = train_step(model, [tf.constant([0, 1]), tf.constant([1])])
    gradients = averaged(step)
    assert set(gradients) == {"table/part_0", "table/part_1"}
    even, odd = oracles.evaluate([tf.convert_to_tensor(gradients["table/part_%d" % i]) for i in range(2)])
    assert even.sum() + odd.sum() == 4.5


def test_a_gradient_missing_in_every_tower_is_skipped_with_one_warning(warnings):
    def model(x):
        tf.get_variable("unused", [2])
        tf.get_variable("unused_too", [2])
        return tf.reduce_sum(tf.get_variable("w", [2]) * x)

    step = train_step(model, [tf.ones([2])] * 2)
    assert list(averaged(step)) == ["w"]
    assert len([line for line in warnings if "unused" in line and "unused_too" in line]) == 1 and len(warnings) == 1
    with oracles.session() as sess:
        oracles.initialize(sess)
        before, _ = sess.run(tf.trainable_variables()), sess.run(step.train_op)
        after = sess.run(tf.trainable_variables())
    np.testing.assert_array_equal(before[0], after[0])


def test_a_gradient_missing_in_some_towers_is_zero_there_and_named(warnings):
    def model(x):
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        v = tf.get_variable("partly", [2], initializer=tf.ones_initializer())
        return tf.reduce_sum(w * x * (v if towers.current_tower().index == 1 else 1.))

    step = train_step(model, [tf.constant([1., 2.]), tf.constant([3., 4.]), tf.constant([5., 6.])])
    np.testing.assert_allclose(oracles.evaluate(averaged(step)["partly"]), [1., 4 / 3.])
    place = [v.op.name for _, v in step.grads_and_vars].index("partly")
    assert [tower[place] is None for tower in step.tower_gradients] == [True, False, True]
    assert len(warnings) == 1 and "partly" in warnings[0] and "0, 2" in warnings[0]


def test_no_warning_where_every_tower_has_a_gradient(warnings):
    train_step(lambda x: tf.reduce_sum(tf.get_variable("w", [2]) * x), [tf.ones([2])] * 2)
    assert not warnings


def test_variables_read_in_a_while_loop(control_flow):
    """w^3 x_i by a loop: d/dw of the mean is 3 w^2 mean(x)."""
    def model(x):
        w = tf.get_variable("w", [], tf.float64, tf.constant_initializer(2.))
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * w), [0, x])[1]

    xs = [1., 3., 5.]
    step = train_step(model, [tf.constant(x, tf.float64) for x in xs], tf.train.MomentumOptimizer(1 / 64., .5))
    w, momentum = 2., 0.
    with oracles.session() as sess:
        oracles.initialize(sess)
        for _ in range(4):
            gradient, _ = sess.run([averaged(step)["w"], step.train_op])
            np.testing.assert_allclose(gradient, 3 * w ** 2 * np.mean(xs), rtol=1e-10)
            momentum = .5 * momentum + gradient
            w -= momentum / 64
            np.testing.assert_allclose(sess.run(tf.trainable_variables()[0]), w, rtol=1e-10)


def test_variables_read_in_a_cond(control_flow):
    def model(x):
        w = tf.get_variable("w", [], tf.float64, tf.constant_initializer(2.))
        v = tf.get_variable("v", [], tf.float64, tf.constant_initializer(4.))
        return tf.cond(x > 2, lambda: w * w * x, lambda: v * x)

    step = train_step(model, [tf.constant(x, tf.float64) for x in (1., 3., 5.)])
    gradients = oracles.evaluate(averaged(step))
    np.testing.assert_allclose([gradients["w"], gradients["v"]], [2 * 2 * 8 / 3., 1 / 3.], rtol=1e-12)


def test_an_embedding_looked_up_in_a_loop(control_flow):
    def model(ids):
        table = tf.get_variable("table", initializer=tf.constant(TABLE))
        return tf.while_loop(lambda i, _: i < 2,
                             lambda i, y: (i + 1, y + tf.reduce_sum(tf.square(tf.gather(table, ids[i])))),
                             [0, tf.constant(0., tf.float64)])[1]

    step = train_step(model, [tf.constant([0, 2]), tf.constant([2, 2])])
    expected = np.zeros_like(TABLE)
    np.add.at(expected, [0, 2, 2, 2], 2 * TABLE[[0, 2, 2, 2]] / 2)
    np.testing.assert_allclose(oracles.evaluate(tf.convert_to_tensor(averaged(step)["table"])), expected, rtol=1e-12)


def test_a_variable_read_outside_the_towers():
    """A weight normalised once, outside, and used by every tower."""
    raw = tf.get_variable("raw", initializer=tf.constant([3., 4.], tf.float64), use_resource=True)
    unit = raw / tf.sqrt(tf.reduce_sum(tf.square(raw)))

    def model(x):
        w = tf.get_variable("w", [2], tf.float64, tf.ones_initializer())
        return tf.reduce_sum(unit * w * x)

    step = train_step(model, [tf.constant([1., 0.], tf.float64), tf.constant([0., 3.], tf.float64)])
    x = np.array([.5, 1.5])
    expected = (np.eye(2) / 5 - np.outer([3, 4], [3, 4]) / 125.).dot(x)
    gradients = oracles.evaluate(averaged(step))
    np.testing.assert_allclose(gradients["raw"], expected, rtol=1e-12)
    np.testing.assert_allclose(gradients["w"], [.3, 1.2], rtol=1e-12)
    names = [v.op.name for _, v in step.grads_and_vars]
    for tower in step.tower_gradients:
        assert tower[names.index("raw")] is None and tower[names.index("w")] is not None


def test_a_variable_read_in_a_merge_function():
    def model(x):
        w = tf.get_variable("w", [], tf.float64, tf.constant_initializer(2.))
        return towers.merge(lambda xs: tf.add_n(xs) * w, x) * w

    step = train_step(model, [tf.constant(1., tf.float64), tf.constant(3., tf.float64)])
    np.testing.assert_allclose(oracles.evaluate(averaged(step)["w"]), 2 * 2 * 4)


def test_gradients_inside_the_model_and_stopped_ones():
    def model(x):
        w = tf.get_variable("w", [], tf.float64, tf.constant_initializer(2.))
        return tf.gradients(w ** 3 * x, w)[0] + tf.stop_gradient(w) * w

    step = train_step(model, [tf.constant(1., tf.float64), tf.constant(3., tf.float64)])
    np.testing.assert_allclose(oracles.evaluate(averaged(step)["w"]), 6 * 2 * 2 + 2)


def test_custom_gradients_of_a_model():
    @tf.custom_gradient
    def doubled(x):
        return x * 1., lambda dy: 2. * dy

    step = train_step(lambda x: doubled(tf.get_variable("w", [], initializer=tf.ones_initializer()) * x),
                      [tf.constant(1.), tf.constant(3.)])
    assert oracles.evaluate(averaged(step)["w"]) == 4.


def test_a_reference_variable_of_the_callers_is_trained_too():
    w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.), use_resource=False)
    step = train_step(lambda x: w * x, [tf.constant(1.), tf.constant(3.)])
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        assert sess.run(w) == 1.
    assert step.tower_gradients == [[None], [None]]


@pytest.mark.parametrize("statistics", ["sum", "concat"])
def test_no_sum_over_four_towers_begins_with_whichever_part_is_free_first(statistics):
    # `AddN` of three or more does, so its bits change from run to run; of two, and in a chain, it cannot.
    def model(x):
        w = tf.get_variable("w", [3, 3])
        y = towers.sync_bn(tf.matmul(x, w) + tf.matmul(x * x, w) + tf.matmul(x - 1., w), training=True, statistics=statistics)
        uses = [tf.tanh(y), tf.sigmoid(y), tf.sin(y), towers.all_sum(y), towers.all_mean(y)]
        return towers.weighted_mean(sum(uses[1:], uses[0]), 1.)

    step = train_step(model, [tf.ones([2, 3])] * 4)
    sums = [op for op in tf.get_default_graph().get_operations()
            if op.type in ("AddN", "AccumulateNV2") and op.outputs[0].dtype.is_floating]
    assert len(sums) > 10 and step.train_op is not None
    assert not [op.name for op in sums if len(op.inputs) > 2]
