"""Two builds in one graph share variables and do not disturb each other."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def test_train_and_evaluation_builds_in_one_graph():
    """Evaluation shares the variables, changes nothing, and adds nothing to the train step."""
    x = np.random.RandomState(0).randn(6, 3) + 2.

    def model(inputs):
        y = towers.sync_bn(inputs, name="bn", momentum=.5)
        return tf.reduce_mean(tf.square(y - 1.) * tf.get_variable("w", [3], inputs.dtype, tf.ones_initializer()))

    batch = towers.split_batch(tf.constant(x), 2)
    step = towers.build_train_step(model, batch, tf.train.GradientDescentOptimizer(.1), CPUS[:2])
    variables, updates = tf.global_variables(), tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        losses = towers.build(model, batch, CPUS[:2])
    assert tf.global_variables() == variables and tf.get_collection(tf.GraphKeys.UPDATE_OPS) == updates
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        before = sess.run(variables)
        evaluated = sess.run(losses)
        after = sess.run(variables)
    for old, new in zip(before, after):
        np.testing.assert_array_equal(old, new)
    value = dict(zip([v.op.name for v in variables], before))
    y = (x - value["bn/moving_mean"]) / np.sqrt(value["bn/moving_variance"] + 1e-3) * value["bn/gamma"] + value["bn/beta"]
    np.testing.assert_allclose(np.mean(evaluated), np.mean((y - 1) ** 2 * value["w"]), rtol=1e-9)


def test_a_gan_with_two_optimisers_and_var_lists():
    """Two builds share all variables; each step moves its own, and runs only its own update ops."""
    def generator(z):
        with tf.variable_scope("generator"):
            return towers.sync_bn(towers.layers.dense(z, 3), name="bn", momentum=0.)

    def discriminator(x):
        with tf.variable_scope("discriminator"):
            return tf.reduce_mean(towers.layers.dense(tf.tanh(towers.layers.dense(x, 4)), 1))

    zs = [tf.constant(np.random.RandomState(i).randn(4, 2), tf.float32) for i in range(2)]
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        towers.build(lambda z: discriminator(generator(z)), zs, CPUS[:2])  # makes the variables
        of = {name: [v for v in tf.trainable_variables() if v.op.name.startswith(name)]
              for name in ("generator", "discriminator")}
        g_step = towers.build_train_step(lambda z: discriminator(generator(z)), zs, tf.train.AdamOptimizer(.1),
                                         CPUS[:2], var_list=of["generator"])
        d_step = towers.build_train_step(lambda z: discriminator(z[:, :1] * tf.ones([4, 3])) - 0.5, zs,
                                         tf.train.AdamOptimizer(.1), CPUS[:2], var_list=of["discriminator"],
                                         global_step=tf.get_variable("d_step", [], tf.int64, tf.zeros_initializer()))
    assert len(g_step.update_ops) == 2 and d_step.update_ops == []
    with oracles.session() as sess:
        oracles.initialize(sess)
        for step, moved, kept in ((g_step, "generator", "discriminator"), (d_step, "discriminator", "generator")):
            everything = {v.op.name: v for v in tf.global_variables()}
            before = sess.run(everything)
            sess.run(step.train_op)
            after = sess.run(everything)
            changed = set(name for name in before if (before[name] != after[name]).any())
            assert not [name for name in changed if name.startswith(kept)], changed
            assert set(v.op.name for _, v in step.grads_and_vars) <= changed
            assert ("generator/bn/moving_mean" in changed) == (moved == "generator")


def test_two_threads_build_their_own_graphs_at_once():
    parts = [np.random.RandomState(seed).randn(4, 3) for seed in range(2)]
    failures, results = [], {}

    def body(number):
        try:
            with tf.Graph().as_default():
                for _ in range(3):
                    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
                        step = towers.build_train_step(
                            lambda x: tf.reduce_mean(tf.square(towers.sync_bn(x, name="bn") + 1.)),
                            [tf.constant(part + number) for part in parts], tf.train.MomentumOptimizer(.1, .9), CPUS[:2])
                assert len(tf.global_variables()) == 7  # four of the layer, two slots, the step
                with oracles.session() as sess:
                    oracles.initialize(sess)
                    sess.run(step.train_op)
                    results[number] = [sess.run(v) for v in tf.global_variables() if "moving_mean" in v.name][0]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
    for number in range(3):
        expected = oracles.BatchNorm([part + number for part in parts], 1, 0, 1e-3).mean
        np.testing.assert_allclose(results[number], .01 * expected, rtol=1e-9)


def test_ops_are_under_their_towers_scope_in_every_build():
    for _ in range(2):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            results = towers.build(lambda x: tf.square(towers.sync_bn(x, name="bn", training=True)),
                                   [tf.ones([2, 3])] * 2, CPUS[:2])
        for i, y in enumerate(results):
            assert "tower_%d" % i in y.op.name.split("/") and "tower_%d" % (1 - i) not in y.op.name
    graph = tf.get_default_graph()
    assert len(set(op.name for op in graph.get_operations())) == len(graph.get_operations())


def test_two_models_with_their_own_layers():
    """The second model's step neither runs the first one's update ops nor takes its reads for its own."""
    steps = {}
    for name, factor in (("first", 2.), ("second", 3.)):
        with tf.variable_scope(name):
            steps[name] = towers.build_train_step(
                lambda x: tf.reduce_sum(towers.sync_bn(x, momentum=0.) + factor * x * tf.get_variable("w", [])),  # noqa: B023
                [tf.ones([2, 3]), 2. * tf.ones([2, 3])], tf.train.GradientDescentOptimizer(1.), CPUS[:2])
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(steps["second"].train_op)
        state = sess.run({v.op.name: v for v in tf.global_variables()})
        gradients = sess.run({v.op.name: g for g, v in steps["second"].grads_and_vars})
    assert (state["first/batch_normalization/moving_mean"] == 0).all()
    np.testing.assert_allclose(state["second/batch_normalization/moving_mean"], 1.5)
    assert set(gradients) == set("second/" + name for name in ("w", "batch_normalization/gamma", "batch_normalization/beta"))
    assert gradients["second/w"] == 27.
