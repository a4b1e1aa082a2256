"""Reductions over the towers, as ordinary graph that TensorFlow differentiates.

`merge` is the one mechanism: it pauses the tower until every tower has arrived, runs a function once over the lists of
tensors, and hands each tower its result. The others are merges:

    all_sum(x)            = sum_i x_i                                                    (over all workers' towers, too)
    all_mean(x)           = sum_i x_i / num_towers
    all_concat(x, axis)   = [x_0, x_1, ...]
    weighted_mean(v, w)   = num_towers * sum_i(v_i * w_i) / sum over all towers of w     (on tower i)
"""

import tensorflow.compat.v1 as tf

from towers import collectives, summation
from towers.tower import TowerError, current_tower


def merge(fn, *tensors):
    """Runs a function once over all towers' tensors.

    Args:
      fn: called once, on the aggregation device, as `fn(list_1, list_2, ...)`, each list holding one tensor of every
        tower, in tower order. It returns a `list` of exactly `num_towers` entries, one a tower, or a tensor, tuple or
        dict, which goes whole to every tower.
      *tensors: this tower's tensors (or what converts to one).

    Returns:
      This tower's result.

    Raises:
      TowerError: `fn` returned a list of another length; the merge is inside control flow, a `tf.function` or another
        graph; or another tower returned, or reached another layer, instead.
    """
    return merge_as("merge", fn, *tensors)


def merge_as(kind, fn, *tensors):
    """`merge`, with the kind of layer that errors name."""
    tower = current_tower()
    tensors = tuple(tf.convert_to_tensor(tensor) for tensor in tensors)
    if tower._build is not None:
        return tower._build.merge(tower, kind, fn, tensors)
    result = fn(*[[tensor] for tensor in tensors])
    if type(result) is not list:
        return result
    if len(result) != 1:
        raise TowerError("the merge function returned a list of %d; wanted one entry for the one tower" % len(result))
    return result[0]


def all_sum(x):
    """The sum of `x` over all towers, on every tower; any shape that is the same on all, any dtype that adds."""
    return merge_as("all_sum", _sum, x)


def all_mean(x):
    """The mean of `x` over all towers, each counting equally; an integer `x` gives float64, as `tf.truediv` does."""
    return merge_as("all_mean", lambda xs: tf.truediv(_sum(xs), tf.cast(current_tower().num_towers, xs[0].dtype)), x)


def all_concat(x, axis=0):
    """All towers' `x` one behind the other along `axis`, in tower order; sizes along it may differ."""
    return merge_as("all_concat", lambda xs: workers().concat(tf.concat(xs, axis=axis), axis), x)


def weighted_mean(values, weights):
    """A number per tower whose mean over all towers is the weighted mean over the whole batch.

    The plain mean of per-tower means is not the batch's mean where towers hold unequal weight (unequal batches, ignored
    pixels). This one is: mean over towers of the result = sum(values * weights) / sum(weights), sums over all towers.

    Args:
      values: a float tensor of any shape.
      weights: a tensor that broadcasts to it; what has weight 0 does not count, even where the value is not finite.

    Returns:
      A scalar of the dtype of `values`; 0 when all weights are 0. Sums of half-precision values are taken in float32.
    """
    with tf.name_scope("weighted_mean"):
        values = tf.convert_to_tensor(values)
        if not values.dtype.is_floating:
            raise ValueError("values are %s; wanted a float tensor" % values.dtype.name)
        dtype = tf.float32 if values.dtype in (tf.float16, tf.bfloat16) else values.dtype
        weights = tf.cast(weights, dtype) * tf.ones_like(values, dtype=dtype)
        weighed = tf.not_equal(weights, 0)
        values_or_0 = tf.where(weighed, tf.cast(values, dtype), tf.zeros_like(weights))
        weight = all_sum(tf.reduce_sum(weights))
        some = tf.not_equal(weight, 0)
        total = current_tower().num_towers * tf.reduce_sum(values_or_0 * weights)
        mean = tf.where(some, total, tf.zeros_like(total)) / tf.where(some, weight, tf.ones_like(weight))
        return tf.cast(mean, values.dtype)


def workers():
    """The workers over which the current tower's build reaches."""
    build = current_tower()._build
    return collectives.OneWorker() if build is None else build.workers


def sum_at_end(tensor, then):
    """In the first tower of a worker: has `then(total)` called at the end of its model function, once its layers are made.

    `total` is the sum of `tensor`, whose shape is known, over all workers. Whatever asked for such a sum in this build shares
    one collective, which no layer waits for.
    """
    current_tower()._build.sum_at_end(tensor, then)


def _sum(xs):
    return workers().sum(summation.in_order(xs))
