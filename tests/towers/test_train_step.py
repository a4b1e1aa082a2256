"""The train step: what it holds, every optimizer, averages of variables, wrong use."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def quadratic(num_towers=2, optimizer=None, **kwargs):
    """loss_i = |w - c_i|^2 with c_i = i, w = (3, 3)."""
    def model(c):
        w = tf.get_variable("w", [2], initializer=tf.constant_initializer(3.))
        return {"loss": tf.reduce_sum(tf.square(w - c)), "tower": c}

    return towers.build_train_step(model, [tf.constant(float(i)) for i in range(num_towers)],
                                   optimizer or tf.train.GradientDescentOptimizer(.1), CPUS[:num_towers], **kwargs)


def test_what_a_train_step_holds():
    step = quadratic(3)
    with oracles.session() as sess:
        oracles.initialize(sess)
        loss, losses, towers_, averaged, by_tower = sess.run(
            [step.loss, step.tower_losses, [output["tower"] for output in step.outputs], step.grads_and_vars[0][0],
             [gradients[0] for gradients in step.tower_gradients]])
        assert losses == [18., 8., 2.] and np.isclose(loss, 28. / 3) and towers_ == [0., 1., 2.]
        np.testing.assert_allclose(by_tower, [[6, 6], [4, 4], [2, 2]])
        np.testing.assert_allclose(averaged, [4, 4])
        sess.run(step.train_op)
        w = sess.run(step.grads_and_vars[0][1])
        np.testing.assert_allclose(w, 3 - .4, rtol=1e-6)
        assert sess.run(step.global_step) == 1
    assert step.grads_and_vars[0][1] is tf.trainable_variables()[0] and step.update_ops == []
    assert step.global_step is tf.train.get_global_step()


def test_gradient_transform_sees_averages_and_says_what_is_applied():
    seen = []

    def clip(pairs):
        seen.extend(pairs)
        clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 1.)
        return zip(clipped, [v for _, v in pairs])

    step = quadratic(3, gradient_transform=clip)
    assert seen == step.grads_and_vars
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        np.testing.assert_allclose(sess.run(tf.trainable_variables()[0]), 3 - .1 / np.sqrt(2), rtol=1e-6)


def test_a_global_step_of_the_callers():
    counter = tf.get_variable("counter", [], tf.int64, tf.constant_initializer(41), trainable=False)
    step = quadratic(global_step=counter)
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        assert sess.run(counter) == 42 and step.global_step is counter
    assert tf.train.get_global_step() is None


def test_var_list_trains_only_what_it_names():
    def model(x):
        a, b = [tf.get_variable(name, [], initializer=tf.ones_initializer()) for name in "ab"]
        return a * b * x

    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        b = tf.get_variable("b", [], initializer=tf.ones_initializer(), use_resource=True)
        step = towers.build_train_step(model, [tf.constant(1.), tf.constant(3.)],
                                       tf.train.GradientDescentOptimizer(.25), CPUS[:2], var_list=[b])
    assert [v for _, v in step.grads_and_vars] == [b]
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        assert sess.run({v.op.name: v for v in tf.trainable_variables()}) == {"a": 1., "b": .5}


def test_exponential_moving_averages_of_the_shared_variables():
    step = quadratic(3)
    average = tf.train.ExponentialMovingAverage(.9)
    w = tf.trainable_variables()[0]
    with tf.control_dependencies([step.train_op]):
        train_op = average.apply([w])
    with oracles.session() as sess:
        oracles.initialize(sess)
        shadow, value = 3., 3.
        for _ in range(3):
            sess.run(train_op)
            value -= .1 * 2 * (value - 1)
            shadow = .9 * shadow + .1 * value
        np.testing.assert_allclose(sess.run(average.average(w)), shadow, rtol=1e-5)
    assert average.average_name(w) == "w/ExponentialMovingAverage"
    restore = average.variables_to_restore()
    assert restore["w/ExponentialMovingAverage"] is w


@pytest.mark.parametrize("optimizer", [
    lambda: tf.train.AdagradOptimizer(.1), lambda: tf.train.AdadeltaOptimizer(.5), lambda: tf.train.FtrlOptimizer(.1),
    lambda: tf.train.ProximalGradientDescentOptimizer(.1), lambda: tf.train.ProximalAdagradOptimizer(.1),
    lambda: tf.train.MomentumOptimizer(.1, .9, use_nesterov=True),
    lambda: tf.train.AdagradDAOptimizer(.1, tf.train.get_or_create_global_step())])
def test_every_optimizer_steps_as_on_one_device(optimizer):
    results = []
    for num_towers in (0, 2):
        with tf.Graph().as_default():
            if num_towers:
                train_op = quadratic(2, optimizer()).train_op
            else:
                made = optimizer()
                w = tf.get_variable("w", [2], initializer=tf.constant_initializer(3.), use_resource=True)
                loss = (tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.square(w - 1.))) / 2
                train_op = made.minimize(loss, tf.train.get_or_create_global_step())
            with oracles.session() as sess:
                oracles.initialize(sess)
                for _ in range(4):
                    sess.run(train_op)
                results.append(sess.run({v.op.name: v for v in tf.global_variables()}))
    assert set(results[0]) == set(results[1])
    for name in results[0]:
        np.testing.assert_allclose(results[1][name], results[0][name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("result,match", [
    (lambda x: None, "None"), (lambda x: x, "shape"), (lambda x: {"other": 1.}, "'loss'"),
    (lambda x: tf.constant(1), "int32"), (lambda x: tf.reduce_sum(x), "no variable has a gradient")])
def test_a_wrong_loss_is_refused(result, match):
    with pytest.raises(ValueError, match=match):
        towers.build_train_step(result, [tf.ones([2])] * 2, tf.train.GradientDescentOptimizer(.1), CPUS[:2])


def test_other_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="optimizer"):
        quadratic(optimizer="sgd")
    with pytest.raises(ValueError, match="gradient_transform"):
        with tf.Graph().as_default():
            quadratic(gradient_transform=lambda pairs: [])


def test_a_finalised_graph_runs_and_the_step_adds_no_op():
    step = quadratic(2)
    init = tf.global_variables_initializer()
    tf.get_default_graph().finalize()
    with oracles.session() as sess:
        sess.run(init)
        for _ in range(3):
            sess.run([step.train_op, step.loss, step.tower_losses, step.grads_and_vars[0][0]])


def test_every_further_tower_adds_the_same_few_ops():
    def ops(num_towers, num_layers):
        def model(x):
            for _ in range(num_layers):
                x = tf.nn.relu(towers.sync_bn(x, training=True))
            return tf.reduce_mean(x)

        with tf.Graph().as_default() as graph:
            towers.build_train_step(model, [tf.zeros([2, 32, 32, 8])] * num_towers, tf.train.GradientDescentOptimizer(.1),
                                    oracles.CPUS[:num_towers])
            # Zeros for outputs that nothing uses are TensorFlow's own; they never run.
            return len([op for op in graph.get_operations() if op.type != "ZerosLike"])

    assert ops(4, 3) - ops(3, 3) == ops(3, 3) - ops(2, 3)
    assert (ops(4, 3) - ops(3, 3)) - (ops(4, 2) - ops(3, 2)) <= 30  # a layer and its ReLU, forward and backward
