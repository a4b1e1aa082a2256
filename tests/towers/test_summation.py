"""Sums keep one order of addition, also after TensorFlow's optimiser has rewritten the graph."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from towers import summation


def what_runs(session, fetches, feed=None):
    """The nodes of the graph that a session makes of its own when it runs `fetches`: a list."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True, trace_level=tf.RunOptions.SOFTWARE_TRACE)
    session.run(fetches, feed, options=options, run_metadata=metadata)
    return [node for graph in metadata.partition_graphs for node in graph.node]


def long_sums(nodes):
    """The names of sums of three or more floats, whose order of addition depends on timing."""
    return [node.name for node in nodes if "AddN" in node.op and tf.as_dtype(node.attr["T"].type).is_floating
            and sum(not name.startswith("^") for name in node.input) > 2]


def convolutions(count):
    """Tensors of one shape, each the result of an op that the optimiser cannot fold away, and their values."""
    images = tf.placeholder_with_default(np.random.RandomState(0).randn(1, 8, 8, 4).astype(np.float32), [1, 8, 8, 4])
    return [tf.nn.conv2d(images, tf.Variable(tf.random_normal([1, 1, 4, 4], seed=i)), [1, 1, 1, 1], "SAME")
            for i in range(count)]


def left_to_right(values):
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def test_the_optimiser_makes_one_sum_of_a_chain_unless_it_is_kept():
    """What the module is for; where TensorFlow stops doing so, `_kept` may go."""
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = convolutions(4)
        chain = tf.nn.relu(left_to_right(tensors))
        session.run(tf.global_variables_initializer())
        assert long_sums(what_runs(session, chain))


@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_in_order_adds_pair_by_pair_from_the_left(count):
    with tf.Graph().as_default(), tf.Session() as session:
        tensors = convolutions(count)
        total = tf.nn.relu(summation.in_order(tensors))
        session.run(tf.global_variables_initializer())
        nodes = what_runs(session, total)
        assert not long_sums(nodes)
        assert sum(node.op in ("AddN", "Add", "AddV2") for node in nodes) == count - 1
        values, found = session.run([tensors, total])
        np.testing.assert_array_equal(found, np.maximum(left_to_right(values), 0))


def test_in_order_keeps_sums_of_sums():
    with tf.Graph().as_default(), tf.Session() as session:
        a, b, c, d = convolutions(4)
        total = tf.nn.relu(summation.in_order([a + b, c + d]))
        session.run(tf.global_variables_initializer())
        assert not long_sums(what_runs(session, total))


def test_integers_and_variants_add_as_they_did():
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(summation.in_order([tf.constant([1, 2])] * 3)).tolist() == [3, 6]
        total = summation.in_order([tf.constant(["a"]), tf.constant(["b"]), tf.constant(["c"])])
        assert session.run(total).tolist() == [b"abc"]


@pytest.mark.parametrize("kind", ["chain", "tree", "add_n", "nested"])
def test_keep_order_holds_for_sums_that_others_wrote(kind):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        a, b, c, d = convolutions(4)
        total = {"chain": lambda: a + b + c + d, "tree": lambda: (a + b) + (c + d), "add_n": lambda: tf.add_n([a, b, c, d]),
                 "nested": lambda: tf.add_n([a, tf.add_n([b, c, d])]) + a}[kind]()
        result = tf.nn.relu(total) * 2.
        replaced = summation.keep_order(graph.get_operations())
        session.run(tf.global_variables_initializer())
        assert not long_sums(what_runs(session, result))
        a, b, c, d, found = session.run([a, b, c, d, result])
        wanted = {"chain": a + b + c + d, "tree": (a + b) + (c + d), "add_n": a + b + c + d,
                  "nested": a + (b + c + d) + a}[kind]
        np.testing.assert_array_equal(found, np.maximum(wanted, 0) * 2)
        assert bool(replaced) == (kind in ("add_n", "nested"))


def test_keep_order_leaves_other_dtypes_and_control_flow_alone():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder_with_default(np.float32(1), [])
        integers = tf.add_n([tf.cast(x, tf.int32)] * 3)
        branch = tf.cond(x > 0, lambda: tf.add_n([x, x * 2, x * 3]), lambda: x)
        loop = tf.while_loop(lambda i: i < 3., lambda i: tf.add_n([i, x, x * 0.]), [x])
        before = len(graph.get_operations())
        assert summation.keep_order(graph.get_operations()) == {}
        assert len(graph.get_operations()) == before
        assert session.run([integers, branch, loop]) == [3, 6., 3.]


def branched(images):
    """Every activation has several readers, the loss several parts, and the towers merge."""
    x = tf.nn.relu(towers.sync_bn(towers.layers.conv2d(images, 8, 3, padding="same", use_bias=False)))
    ys = [towers.sync_bn(towers.layers.conv2d(x, 8, 1, use_bias=False)) for _ in range(3)]
    y = tf.nn.relu(ys[0] + ys[1] + ys[2] + x)
    for i in range(3):
        y += towers.layers.conv2d(x, 8, 1, name="reused", reuse=i > 0)
    logits = towers.layers.conv2d(y, 2, 1)
    losses = [towers.weighted_mean(tf.square(logits), tf.ones_like(logits)), tf.reduce_mean(y)]
    penalties = [tf.nn.l2_loss(variable) for variable in tf.trainable_variables()]
    return tf.add_n([tf.cast(loss, tf.float32) for loss in losses] + penalties)


@pytest.mark.parametrize("num_towers", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"recompute": True}, {"accumulate_steps": 2}, {"precision": "bfloat16"}], ids=str)
def test_no_sum_of_a_training_step_depends_on_timing(num_towers, options):
    devices = towers.tower_devices(num_towers, "cpu")
    with tf.Graph().as_default(), tf.Session(config=towers.session_config(devices)) as session:
        images = tf.random_normal([4, 8, 8, 3], seed=1)
        step = towers.build_train_step(
            branched, towers.split_batch(images, num_towers), tf.train.MomentumOptimizer(.1, .9), devices, **options)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        nodes = what_runs(session, [step.train_op, step.loss, step.tower_losses, step.grads_and_vars])
        assert len(nodes) > 100 and long_sums(nodes) == []


def test_the_gradients_of_kept_sums_are_those_of_sums():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float64, [3])
        y = tf.reduce_sum(tf.square(tf.add_n([x, tf.sin(x), tf.exp(x)]) + x + tf.cos(x)))
        summation.keep_order(graph.get_operations())
        gradient, = tf.gradients(y, x)
        value = np.array([-.3, .2, 1.1])
        inner = 2 * value + np.sin(value) + np.exp(value) + np.cos(value)
        np.testing.assert_allclose(
            session.run(gradient, {x: value}), 2 * inner * (2 + np.cos(value) + np.exp(value) - np.sin(value)), rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"recompute": True}, {"precision": "float16"}], ids=str)
def test_the_graph_of_a_step_is_the_same_whenever_it_is_built(options):
    """Sums follow the order in which ops were made, not that in which a process happens to list them."""
    def nodes():
        tf.set_random_seed(1)
        with tf.Graph().as_default() as graph:
            towers.build_train_step(
                branched, towers.split_batch(tf.zeros([4, 8, 8, 3]), 2), tf.train.MomentumOptimizer(.1, .9),
                towers.tower_devices(2, "cpu"), **options)
            return [(node.name, node.op, list(node.input), node.device) for node in graph.as_graph_def().node]

    first = nodes()
    assert all(nodes() == first for _ in range(8))
