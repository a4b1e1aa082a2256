"""Regularisation counts once, whatever the number of towers and whoever added it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


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
