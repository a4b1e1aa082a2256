"""The learning rate of a step, counted from 0, of which `max_steps` are taken:

    lr(i) = end + (lr - end) · (1 - i / max_steps) ^ power

so the first step has the full rate, and the last, i = max_steps - 1, a rate above the end's. The groups of
variables (see `scripts.network`) have multiples of it.
"""

import tensorflow.compat.v1 as tf


def learning_rate(config, step):
    """lr(step), a scalar float32 tensor on the CPU; `step` is an integer scalar, tensor or variable."""
    optimizer = config.optimizer
    with tf.device("/cpu:0"):
        return tf.train.polynomial_decay(
            optimizer.learning_rate, step, config.max_steps, optimizer.end_learning_rate, optimizer.power
        )


def learning_rates(config, steps):
    """lr of each of a list of steps, as floats, from a graph of its own."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rate = learning_rate(config, step)
        return [float(session.run(rate, {step: number})) for number in steps]
