"""The step on N towers is the step of one device on the whole batch, for every optimizer."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS
OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(.2),
    "momentum": lambda: tf.train.MomentumOptimizer(.05, .9),
    "adam": lambda: tf.train.AdamOptimizer(.02),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(.01, momentum=.5, centered=True),
}
BATCH = 8
STEPS = 20


def images(seed=0):
    random = np.random.RandomState(seed)
    return random.randn(BATCH, 5, 5, 3), random.randn(BATCH, 2)


def initial_weights():
    random = np.random.RandomState(1)
    return {"conv1": .3 * random.randn(3, 3, 3, 4), "conv2": .2 * random.randn(3, 3, 4, 6), "out": .4 * random.randn(6, 2)}


def network(x, batch_norm, get):
    for name, channels in (("conv1", 4), ("conv2", 6)):
        x = tf.nn.conv2d(x, get(name), strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.softplus(batch_norm(x, name + "/bn", channels))
    return tf.matmul(tf.reduce_mean(x, [1, 2]), get("out"))


def tower_model(x, target):
    def get(name):
        return tf.get_variable(name, initializer=tf.constant(initial_weights()[name]))

    def batch_norm(y, name, channels):
        return towers.sync_bn(y, name=name, momentum=.9)

    error = tf.reduce_mean(tf.square(network(x, batch_norm, get) - target), 1)
    return towers.weighted_mean(error, tf.ones_like(error))


def plain_losses(make_optimizer):
    """20 losses and the last state of plain TensorFlow on one device, batch norm written out, no towers anywhere."""
    with tf.Graph().as_default():
        x, target = [tf.constant(value) for value in images()]
        moving = {}

        def get(name):
            return tf.get_variable(name, initializer=tf.constant(initial_weights()[name]), use_resource=True)

        def batch_norm(y, name, channels):
            gamma, beta, mean0, variance0 = [tf.get_variable(
                name + "/" + part, [channels], tf.float64, tf.constant_initializer(value), use_resource=True,
                trainable=part in ("gamma", "beta"))
                for part, value in (("gamma", 1), ("beta", 0), ("moving_mean", 0), ("moving_variance", 1))]
            mean = tf.reduce_mean(y, [0, 1, 2])
            variance = tf.reduce_mean(tf.square(y - mean), [0, 1, 2])
            count = BATCH * 25
            moving[mean0] = mean
            moving[variance0] = variance * count / (count - 1)
            return gamma * (y - mean) / tf.sqrt(variance + 1e-3) + beta

        loss = tf.reduce_mean(tf.square(network(x, batch_norm, get) - target))
        optimizer = make_optimizer()
        pairs = optimizer.compute_gradients(loss)
        updates = [tf.assign(old, .9 * old + .1 * new) for old, new in moving.items()]
        with tf.control_dependencies([g for g, _ in pairs] + updates):
            train_op = optimizer.apply_gradients(pairs)
        with oracles.session() as sess:
            oracles.initialize(sess)
            losses = [sess.run([loss, train_op])[0] for _ in range(STEPS)]
            return losses, sess.run({v.op.name: v for v in tf.global_variables()})


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_twenty_steps_on_any_number_of_towers_are_those_of_one_device(name):
    losses, state = plain_losses(OPTIMIZERS[name])
    assert losses[-1] < .9 * losses[0]
    for num_towers in {"adam": (1, 2, 3, 4, 8), "momentum": (2, 3)}.get(name, (3,)):
        with tf.Graph().as_default():
            inputs = towers.split_batch(tuple(tf.constant(value) for value in images()), num_towers)
            step = towers.build_train_step(tower_model, inputs, OPTIMIZERS[name](), CPUS[:num_towers])
            with oracles.session() as sess:
                oracles.initialize(sess)
                got = [sess.run([step.loss, step.train_op])[0] for _ in range(STEPS)]
                assert sess.run(step.global_step) == STEPS
                after = sess.run({v.op.name: v for v in tf.global_variables()})
        np.testing.assert_allclose(got, losses, rtol=1e-10)
        after.pop("global_step")
        assert set(after) == set(state)
        for key, value in after.items():
            np.testing.assert_allclose(value, state[key], rtol=1e-8, atol=1e-9, err_msg=key)


def test_float32_losses_agree_to_1e_5():
    def model(x, target):
        def get(name):
            return tf.get_variable(name, initializer=tf.constant(initial_weights()[name], tf.float32))

        error = tf.reduce_mean(tf.square(network(
            x, lambda y, scope, _: towers.sync_bn(y, name=scope, momentum=.9), get) - target), 1)
        return towers.weighted_mean(error, tf.ones_like(error))

    losses, _ = plain_losses(OPTIMIZERS["momentum"])
    for num_towers in (1, 3):
        with tf.Graph().as_default():
            inputs = towers.split_batch(tuple(tf.constant(value, tf.float32) for value in images()), num_towers)
            step = towers.build_train_step(model, inputs, OPTIMIZERS["momentum"](), CPUS[:num_towers])
            with oracles.session() as sess:
                oracles.initialize(sess)
                got = [sess.run([step.loss, step.train_op])[0] for _ in range(STEPS)]
        np.testing.assert_allclose(got, losses, rtol=1e-5)


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


@pytest.mark.parametrize("by_hand", ["collection", "model", "regularizer"])
def test_regularisation_counts_once_whatever_the_number_of_towers(by_hand):
    """w regularised by w^2 / 2 with w = 3, loss w x_i: the gradient is mean(x) + 3, the regularisation loss 4.5."""
    def model(x):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.),
                            regularizer=None if by_hand != "regularizer" else lambda v: tf.square(v) / 2)
        if by_hand == "collection":
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.square(w) / 2)
        if by_hand == "model":
            return w * x + tf.square(w) / 2
        x = towers.all_concat(tf.reshape(x, [1]))[towers.current_tower().index]  # a pause in between
        return w * x + tf.losses.get_regularization_loss()

    for num_towers in (1, 2, 4):
        with tf.Graph().as_default():
            step = towers.build_train_step(model, [tf.constant(float(i)) for i in range(num_towers)],
                                           tf.train.GradientDescentOptimizer(.1), CPUS[:num_towers])
            whole = tf.losses.get_regularization_loss()
            gradient, loss, whole = oracles.evaluate([step.grads_and_vars[0][0], step.loss, whole])
        mean = np.mean(range(num_towers))
        np.testing.assert_allclose(gradient, mean + 3, rtol=1e-6)
        np.testing.assert_allclose(loss, 3 * mean + 4.5, rtol=1e-6)
        if by_hand != "model":
            np.testing.assert_allclose(whole, 4.5, rtol=1e-6)


def test_regularisers_of_the_layers_are_seen_by_every_tower():
    def model(x):
        y = towers.layers.dense(x, 2, kernel_regularizer=lambda v: tf.reduce_sum(tf.square(v)), name="a",
                                kernel_initializer=tf.ones_initializer())
        y = towers.sync_bn(y, gamma_regularizer=lambda v: 10. * tf.reduce_sum(v))
        return 0. * tf.reduce_sum(y) + tf.losses.get_regularization_loss()

    step = towers.build_train_step(model, [tf.ones([2, 3])] * 3, tf.train.GradientDescentOptimizer(.1), CPUS[:3])
    assert oracles.evaluate(step.tower_losses) == [26.] * 3


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
        for scope, model in (("generator", lambda z: discriminator(generator(z))),):
            towers.build(model, zs, CPUS[:2])  # makes the variables
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


def test_a_finalised_graph_runs_and_the_step_adds_no_op():
    step = quadratic(2)
    init = tf.global_variables_initializer()
    tf.get_default_graph().finalize()
    with oracles.session() as sess:
        sess.run(init)
        for _ in range(3):
            sess.run([step.train_op, step.loss, step.tower_losses, step.grads_and_vars[0][0]])


def test_the_same_run_twice_gives_the_same_bits():
    def run():
        with tf.Graph().as_default():
            tf.set_random_seed(5)

            def model(x):
                y = towers.layers.conv2d(x, 6, 3)
                y = tf.nn.relu(towers.sync_bn(y))
                return tf.reduce_mean(tf.square(towers.layers.dropout(y, .3)))

            xs = towers.split_batch(tf.constant(images()[0], tf.float32), 3)
            step = towers.build_train_step(model, xs, tf.train.MomentumOptimizer(.1, .9), CPUS[:3])
            with oracles.session() as sess:
                oracles.initialize(sess)
                return [sess.run([step.loss, step.train_op])[0] for _ in range(8)]

    assert run() == run()
