"""Batch norm as it is synchronised by hand: activations are brought together, normalised, and split again.

    tower i:  x_i ──► CPU: x = [x_0, x_1, ...] ─► fused batch norm of x ─► split as before ──► y_i

All numbers are those of `towers.sync_bn`, and all else in the step is the same; what differs is that whole activations cross
devices, twice forward and twice backward.
"""

import tensorflow.compat.v1 as tf

import towers


def norm(inputs, name, momentum=0.9, epsilon=1e-5):
    """Batch norm in training over the activations of all towers, with the variables of `towers.sync_bn`."""
    with tf.variable_scope(name):
        channels = inputs.shape.as_list()[-1:]
        gamma = tf.get_variable("gamma", channels, initializer=tf.ones_initializer())
        beta = tf.get_variable("beta", channels, initializer=tf.zeros_initializer())
        moving_mean = tf.get_variable("moving_mean", channels, initializer=tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", channels, initializer=tf.ones_initializer(), trainable=False)

        def together(xs, gammas, betas):
            whole = tf.concat(xs, axis=0)
            # All towers read the same gamma and beta: the first tower's reads carry the whole gradient, once.
            y, mean, variance = tf.raw_ops.FusedBatchNormV3(
                x=whole, scale=gammas[0], offset=betas[0], mean=tf.zeros([0]), variance=tf.zeros([0]), epsilon=epsilon,
                is_training=True)[:3]
            parts = tf.split(y, [x.shape.as_list()[0] for x in xs], axis=0)
            return [(part, mean, variance) for part in parts]

        y, mean, variance = towers.merge(together, inputs, gamma, beta)
        if towers.current_tower().is_main:
            for moving, batch in ((moving_mean, mean), (moving_variance, variance)):
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, moving.assign_sub((moving - batch) * (1 - momentum)).op)
        return y
