"""Twenty steps on any number of towers are those of plain TensorFlow on one device, optimizer by optimizer."""

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
