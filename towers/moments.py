"""Mean and variance per channel, on one tower or over all of them, right where |mean| is far above the deviation.

E[x^2] - E[x]^2 cancels there, so each tower i shifts its activations by a pivot p_i near their mean, t = x - p_i, and
sums n_i, s_i = sum t, q_i = sum t^2. Everything after that happens in shifted coordinates. With N = sum n_i, the common
pivot p = sum n_i p_i / N and d_i = p_i - p, two ways to combine give the same numbers:

    'sum'      S = sum (s_i + n_i d_i)     Q = sum (q_i + 2 d_i s_i + n_i d_i^2)
               mean - p = S / N            variance = Q / N - (S / N)^2

    'concat'   a_i = d_i + s_i / n_i       M2_i = q_i - s_i^2 / n_i          (each tower centred by itself)
               mean - p = sum n_i a_i / N  variance = (sum M2_i + sum n_i (a_i - (mean - p))^2) / N

The second is the pairwise rule of Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances" (1979). Tower i then normalises t about (mean - p) - d_i. Pivots carry no gradient: neither the mean
nor the variance depends on them. Only vectors of length C leave a tower.
"""

import collections

import tensorflow.compat.v1 as tf

from towers import channel_ops
from towers import merging

STATISTICS = ("sum", "concat")

# A pivot is the mean of about this many positions, spread over the tower's batch.
_PIVOT_POSITIONS = 64


class Moments(collections.namedtuple("Moments", "mean variance count center")):
    """Batch statistics.

    Attributes:
      mean: `[C]`, the mean.
      variance: `[C]`, the biased variance, not negative.
      count: scalar float, how many values a channel has (0 for an empty batch).
      center: `[C]`, the mean relative to this tower's pivot.
    """


def shift(x, axis):
    """Shifts `x` by a pivot near its mean: returns `x - pivot` and the pivot `[C]`, both in the dtype of `x`."""
    with tf.name_scope("shift"):
        pivot = _pivot(tf.stop_gradient(x), axis)
        shape = [-1 if i == axis else 1 for i in range(x.shape.ndims)]
        return x - (pivot if axis == x.shape.ndims - 1 else tf.reshape(pivot, shape)), pivot


def tower_moments(shifted, pivot, axis):
    """The `Moments` of this tower alone, from what `shift` returned."""
    return _combine("sum", [_count(shifted, axis)], [_packed(shifted, pivot, axis)])[0]


def all_moments(shifted, pivot, axis, statistics):
    """The `Moments` over all towers, from what `shift` returned; combined by the rule that `statistics` names."""
    return merging.merge_as(
        "sync_bn", lambda counts, packed: _combine(statistics, counts, packed),
        _count(shifted, axis), _packed(shifted, pivot, axis))


def _pivot(x, axis):
    rows = x if axis == x.shape.ndims - 1 else tf.transpose(x, [i for i in range(x.shape.ndims) if i != axis] + [axis])
    channels = x.shape.as_list()[axis]
    rows = tf.reshape(rows, tf.stack([-1, tf.shape(x)[axis] if channels is None else channels]))
    step = tf.maximum(1, tf.shape(rows)[0] // _PIVOT_POSITIONS)
    sample = rows[::step]
    return tf.reduce_sum(sample, 0) / tf.cast(tf.maximum(1, tf.shape(sample)[0]), x.dtype)


def _count(x, axis):
    sizes = [size for i, size in enumerate(x.shape.as_list()) if i != axis]
    if None not in sizes:
        count = 1
        for size in sizes:
            count *= size
        return tf.constant(count, x.dtype)
    sizes = tf.shape(x, out_type=tf.int64)
    return tf.cast(tf.reduce_prod(sizes[:axis]) * tf.reduce_prod(sizes[axis + 1:]), x.dtype)


def _packed(shifted, pivot, axis):
    """`[3, C]`: pivot, sum and sum of squares, which cross devices as one tensor."""
    return tf.stack([pivot] + list(channel_ops.channel_sums(shifted, axis)))


def _combine(statistics, counts, packed):
    """One `Moments` a tower, from all towers' counts and packed sums; `[towers, C]` arithmetic."""
    towers = len(counts)
    if towers == 1:
        return [_combine_one(counts[0], packed[0])]
    n = tf.stack(counts)[:, tf.newaxis]
    pivots, s, q = tf.unstack(tf.stack(packed), axis=1)
    total = tf.reduce_sum(n)
    total_or_1 = tf.maximum(total, 1)
    pivot = tf.reduce_sum(n * pivots, 0) / total_or_1
    d = pivots - pivot
    if statistics == "sum":
        mean = tf.reduce_sum(s + n * d, 0) / total_or_1
        variance = tf.reduce_sum(q + 2 * d * s + n * tf.square(d), 0) / total_or_1 - tf.square(mean)
    else:
        n_or_1 = tf.maximum(n, 1)
        a = d + s / n_or_1
        mean = tf.reduce_sum(n * a, 0) / total_or_1
        m2 = q - tf.square(s) / n_or_1
        variance = tf.reduce_sum(m2 + n * tf.square(a - mean), 0) / total_or_1
    variance = tf.maximum(variance, 0)
    centers = tf.unstack(mean - d, num=towers)
    return [Moments(pivot + mean, variance, total, center) for center in centers]


def _combine_one(count, packed):
    """`_combine` for one tower, whose pivot is the common one; both rules are the same then."""
    pivot, s, q = tf.unstack(packed)
    total_or_1 = tf.maximum(count, 1)
    mean = s / total_or_1
    return Moments(pivot + mean, tf.maximum(q / total_or_1 - tf.square(mean), 0), count, mean)
