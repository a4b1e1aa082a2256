"""Batch renormalisation over all towers: an example of a norm layer of one's own, to copy and change.

    y = gamma (r (x - mean) / s + d) + beta,    s = sqrt(variance + epsilon)
    r = clip(s / moving_s, 1 / r_max, r_max)    d = clip((mean - moving_mean) / moving_s, -d_max, d_max)

with mean and variance of all towers' batches together and no gradient through r and d (Ioffe, "Batch Renormalization",
2017). Everything a synchronised layer with state of its own needs is here:

- `towers.all_sum` adds over the towers, forward and backward; summing the counts as well weighs unequal batches right;
- variables come from `tf.get_variable`, so that all towers share one;
- the state is written by one update op, made by the main tower from what all towers know, and put into UPDATE_OPS,
  where `towers.build_train_step` finds it. It waits until all towers have read the state of before. Nothing keeps a copy
  of the state that could be lost.
"""

import tensorflow.compat.v1 as tf

import towers


def sync_batch_renorm(inputs, r_max=3., d_max=5., momentum=.99, epsilon=1e-3, training=None, name=None):
    """Batch renormalisation with the statistics of all towers.

    Args:
      inputs: [N, ..., C] float32 or float64; N may differ between towers.
      r_max, d_max: how far the batch statistics may be corrected towards the moving ones; 1 and 0 give plain sync BN.
      momentum: of the moving averages.
      epsilon: added to the variance.
      training: a bool, or None for `towers.current_tower().training`.
      name: the scope, `batch_renorm` made unique by default.
    Returns:
      A tensor like `inputs`.
    """
    tower = towers.current_tower()
    training = tower.training if training is None else training
    channels = inputs.shape.as_list()[-1]
    axes = list(range(inputs.shape.ndims - 1))
    with tf.variable_scope(name, default_name="batch_renorm"):
        beta = tf.get_variable("beta", [channels], inputs.dtype, tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [channels], inputs.dtype, tf.ones_initializer())
        moving_mean = tf.get_variable("moving_mean", [channels], inputs.dtype, tf.zeros_initializer(), trainable=False)
        moving_variance = tf.get_variable("moving_variance", [channels], inputs.dtype, tf.ones_initializer(),
                                          trainable=False)
        moving_s = tf.sqrt(moving_variance + epsilon)
        if not training:
            return gamma * (inputs - moving_mean) / moving_s + beta

        count = towers.all_sum(tf.cast(tf.size(inputs) // channels, inputs.dtype))
        mean = towers.all_sum(tf.reduce_sum(inputs, axes)) / count
        variance = towers.all_sum(tf.reduce_sum(tf.square(inputs - mean), axes)) / count
        s = tf.sqrt(variance + epsilon)
        r = tf.stop_gradient(tf.clip_by_value(s / moving_s, 1 / r_max, r_max))
        d = tf.stop_gradient(tf.clip_by_value((mean - moving_mean) / moving_s, -d_max, d_max))
        outputs = gamma * ((inputs - mean) / s * r + d) + beta
        if tower.keeps_state:
            with tf.control_dependencies([r, d]):  # this tower's reads; those of the others are waited for anyway
                for moving, batch in ((moving_mean, mean), (moving_variance, variance)):
                    update = tf.assign_sub(moving, (1 - momentum) * (moving - batch))
                    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update.op)
        return outputs
