"""Mean and deviation per channel, on one tower or over all of them, right where |mean| is far above the deviation.

E[x^2] - E[x]^2 cancels there, so each tower i shifts its activations by a pivot p_i near their mean, t = x - p_i, and
sums n_i, s_i = sum t, q_i = sum t^2 (it sends h_i = q_i / 2). Everything after that happens in shifted coordinates. With
N = sum n_i, the common pivot p = sum n_i p_i / N and d_i = p_i - p, two ways to combine give the same numbers:

    'sum'      S = sum (s_i + n_i d_i)     Q = sum (q_i + 2 d_i s_i + n_i d_i^2)
               m = mean - p = S / N        variance = Q / N - m^2

    'concat'   a_i = d_i + s_i / n_i       M2_i = q_i - s_i^2 / n_i          (each tower centred by itself)
               m = sum n_i a_i / N         variance = (sum M2_i + sum n_i (a_i - m)^2) / N

The second is the pairwise rule of Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances" (1979). Tower i normalises t about c_i = m - d_i with the inverse deviation r = (variance + eps)^(-1/2).
Only vectors of length C leave a tower.

Over the workers of a cluster, each worker combines its towers first; then the sums over workers of n, n mean and
M2 + n mean^2, in float64, give count, mean and variance of all.

With groups of towers (see `groups`) "all" is the group, in all of the above. What the moving averages take is of the whole
batch then: over the groups g

    mean = sum n_g mean_g / N        unbiased variance = sum M2_g / sum (n_g - 1)

the mean of the whole batch, and the pooled variance within groups, which is what a group is normalised with on average.

Backward. A tower's pivot carries no gradient, for neither mean nor variance depends on it. From mean = sum x / N and
variance = sum (x - mean)^2 / N, and with C and R the gradients of c_i and r summed over all towers,

    dvariance = -1/2 r^3 R,      ds_i = (C - 2 dvariance c_i) / N,      dh_i = 2 dvariance / N,

whichever way the statistics were combined.
"""

import collections
import numbers

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

from towers import channel_ops, collectives, constants, merging, summation, versions

STATISTICS = ("sum", "concat")

# A pivot is the mean of about this many positions, spread over the tower's batch.
_PIVOT_POSITIONS = 64


class Moments(collections.namedtuple("Moments", "mean variance count freedom center inverse_deviation")):
    """Batch statistics; gradients flow through the last two.

    With groups of towers, the first four are over all groups of this worker, the last two of the tower's group.

    Attributes:
      mean: `[C]`, the mean.
      variance: `[C]`, the biased variance, not negative; of groups, that within them.
      count: how many values a channel has (0 for an empty batch): a scalar tensor, or a number where it is known.
      freedom: the degrees of freedom of the variance, count - 1 in each group; the unbiased variance is
        variance * count / freedom.
      center: `[C]`, the mean relative to this tower's pivot.
      inverse_deviation: `[C]`, (variance + epsilon)^(-1/2).
    """


def shift(x, axis):
    """Shifts `x` by a pivot near its mean: returns `x - pivot` and the pivot `[C]`, both in the dtype of `x`."""
    with tf.get_default_graph().gradient_override_map({"Mean": "TowersPivot"}):
        pivot = _pivot(x, axis)
    with tf.get_default_graph().gradient_override_map({"Sub": "TowersShift"}):
        return tf.subtract(x, channel_ops.broadcast(pivot, x, axis)), pivot


def tower_moments(shifted, pivot, axis, epsilon):
    """The `Moments` of this tower alone, from what `shift` returned."""
    alone = collectives.OneWorker()
    return _combine("sum", epsilon, alone, [_count(shifted, axis)], [_packed(shifted, pivot, axis)])[0]


def all_moments(shifted, pivot, axis, epsilon, statistics, group):
    """The `Moments` over the tower's `groups.Group`, from what `shift` returned; combined as `statistics` says."""
    return merging.merge_as(
        "sync_bn", lambda counts, packed: _by_group(statistics, epsilon, group, counts, packed),
        _count(shifted, axis), _packed(shifted, pivot, axis))


def for_all_workers(batch, group):
    """Count, degrees of freedom, count * mean and count * variance, `[2 + 2 C]` float64, to be added over all workers."""
    share = tf.constant(1. / group.workers.num_workers, tf.float64)  # the workers of a group hold the same
    mean, variance, count, freedom = (tf.cast(value, tf.float64) for value in batch[:4])
    return share * tf.concat([tf.stack([count, freedom]), count * mean, count * variance], 0)


def of_all_workers(total, dtype):
    """Mean, variance, count and degrees of freedom from the sum of `for_all_workers`, of the given dtype."""
    channels = total.shape.as_list()[0] // 2 - 1
    counts, mean, variance = tf.split(total, [2, channels, channels])
    count, freedom = tf.unstack(counts)
    count_or_1 = tf.maximum(count, 1)
    return [tf.cast(value, dtype) for value in (mean / count_or_1, variance / count_or_1, count, freedom)]


def _pivot(x, axis):
    """The mean of some positions, per channel; without a gradient."""
    shape = x.shape.as_list()
    if axis != len(shape) - 1:
        x = tf.transpose(x, [i for i in range(len(shape)) if i != axis] + [axis])
        shape = x.shape.as_list()
    if None not in shape and 0 not in shape:
        return tf.reduce_mean(_sample(x, shape), constants.shared(tuple(range(len(shape) - 1)), tf.int32, x.device))
    rows = tf.reshape(x, [-1, shape[-1]])
    sample = rows[::tf.maximum(1, tf.shape(rows)[0] // _PIVOT_POSITIONS)]
    sample.set_shape([None, shape[-1]])  # a stride that is a tensor loses even the rank
    total = tf.reduce_sum(sample, 0) / tf.cast(tf.maximum(1, tf.shape(sample)[0]), x.dtype)  # 0 for an empty batch
    return tf.stop_gradient(total)


def _sample(x, shape):
    """Every few positions along each axis but the last: about `_PIVOT_POSITIONS` of them; `x` itself where it has fewer."""
    rank, surplus, strides = len(shape), float(np.prod(shape[:-1])) / _PIVOT_POSITIONS, []
    for left, size in zip(range(rank - 1, 0, -1), reversed(shape[:-1])):
        strides.insert(0, int(min(size, max(1, surplus ** (1. / left)))))
        surplus /= strides[0]
    if max(strides) == 1:
        return x
    begin_and_end = constants.shared((0,) * rank, tf.int32, x.device)  # neither counts, by the masks
    everything = 2 ** rank - 1
    return tf.strided_slice(x, begin_and_end, begin_and_end, constants.shared(tuple(strides) + (1,), tf.int32, x.device),
                            begin_mask=everything, end_mask=everything)


def _count(x, axis):
    shape = x.shape.as_list()
    sizes = shape[:axis] + shape[axis + 1:]
    if None not in sizes:
        return constants.shared(float(np.prod(sizes)), x.dtype, x.device)
    sizes = tf.shape(x, out_type=tf.int64)
    return tf.cast(tf.reduce_prod(sizes[:axis]) * tf.reduce_prod(sizes[axis + 1:]), x.dtype)


def _packed(shifted, pivot, axis):
    """`[3, C]`: pivot, sum and half the sum of squares, which cross devices as one tensor."""
    return tf.stack([pivot] + list(channel_ops.channel_sums(shifted, axis)))


def _by_group(statistics, epsilon, group, counts, packed):
    """One `Moments` a tower of this worker."""
    result = []
    for first in range(0, len(counts), group.num_local):
        own = slice(first, first + group.num_local)
        result += _combine(statistics, epsilon, group.workers, counts[own], packed[own])
    if group.num_local == len(counts):
        return result
    kept = _pooled(result[::group.num_local])
    return [moments._replace(**kept) for moments in result]


def _pooled(groups):
    """Mean, variance, count and degrees of freedom over all groups, from one `Moments` of each: a dict."""
    counts = [group.count for group in groups]
    dtype = groups[0].mean.dtype
    if any(tf.is_tensor(count) for count in counts):
        counts = tf.stack([tf.cast(count, dtype) for count in counts])
        count, freedom = tf.reduce_sum(counts), tf.reduce_sum(tf.maximum(counts - 1, 0))
        shares = counts[:, tf.newaxis] / tf.maximum(count, 1)
    else:
        count, freedom = sum(counts), sum(max(count - 1, 0) for count in counts)
        shares = tf.constant([[own / max(count, 1)] for own in counts], dtype)
    mean, variance = (tf.reduce_sum(shares * tf.stack([getattr(group, name) for group in groups]), 0)
                      for name in ("mean", "variance"))
    return {"mean": mean, "variance": variance, "count": count, "freedom": freedom}


def _combine(statistics, epsilon, workers, counts, packed):
    """One `Moments` a tower, from all towers' counts and packed sums; `[towers, C]` arithmetic."""
    num_towers = len(counts)
    pivots, s, h = tf.unstack(tf.stack(packed), axis=1)

    def constant(value, dtype=pivots.dtype):
        return constants.shared(value, dtype, pivots.device)

    def total(x):
        return tf.reduce_sum(x, constant(0, tf.int32))

    n, n_or_1, count, count_or_1 = _counts(counts, constant)
    pivot = total(n * pivots) / count_or_1
    d = pivots - pivot
    if statistics == "sum" or num_towers == 1:
        moved = s + n * d
        m = total(moved) / count_or_1
        variance = total(constant(2.) * h + d * (s + moved)) / count_or_1 - tf.square(m)
    else:
        a = d + s / n_or_1
        m = total(n * a) / count_or_1
        variance = total(constant(2.) * h - tf.square(s) / n_or_1 + n * tf.square(a - m)) / count_or_1
    variance = tf.maximum(variance, constant(0.))
    mean = pivot + m
    if workers.num_workers > 1:
        mean, m, variance, count = _over_workers(workers, pivot, m, variance, count)
        count_or_1 = tf.maximum(count, 1)
    epsilon = constant(float(epsilon)) if isinstance(epsilon, numbers.Real) else epsilon
    centers, inverse_deviations = _with_gradient(
        tf.unstack(m - d, num=num_towers), tf.rsqrt(variance + epsilon), packed, count_or_1, workers)
    return [Moments(mean, variance, count, count - 1, center, r) for center, r in zip(centers, inverse_deviations)]


def _counts(counts, constant):
    """Counts by tower (one number where all are the same, else `[towers, 1]`), the same at least 1; their sum, at least 1.

    The sum is a number where it is known.
    """
    known = [tensor_util.constant_value(count) for count in counts]
    if any(value is None for value in known):
        n, count = tf.stack(counts)[:, tf.newaxis], summation.in_order(counts)
        return n, tf.maximum(n, 1), count, tf.maximum(count, 1)
    known = [float(value) for value in known]
    same = len(set(known)) == 1
    n, n_or_1 = (constant(values[0] if same else tuple((value,) for value in values))
                 for values in (known, [max(value, 1.) for value in known]))
    return n, n_or_1, sum(known), constant(max(sum(known), 1.))


def _over_workers(workers, pivot, m, variance, count):
    """Mean, mean relative to `pivot`, variance and count over all workers, from this worker's; one sum in float64."""
    n, own_mean = tf.cast(count, tf.float64), tf.cast(pivot, tf.float64) + tf.cast(m, tf.float64)
    squares = n * tf.cast(variance, tf.float64) + n * tf.square(own_mean)
    packed = workers.sum(tf.concat([tf.reshape(n, [1]), n * own_mean, squares], 0), "sync BN forward")
    channels = pivot.shape.as_list()[0]
    n, total, squares = tf.split(packed, [1, channels, channels])
    n_or_1 = tf.maximum(n, 1)
    mean = total / n_or_1
    variance = tf.maximum(squares / n_or_1 - tf.square(mean), 0)
    m = mean - tf.cast(pivot, tf.float64)
    return [tf.cast(value, pivot.dtype) for value in (mean, m, variance, tf.reshape(n, []))]


def _with_gradient(centers, inverse_deviation, packed, count, workers):
    """`centers`, and `inverse_deviation` once a tower, with the closed-form gradient to `packed` in place of autodiff's."""
    num_towers = len(centers)
    inputs = centers + [inverse_deviation] * num_towers + packed + [count]
    with tf.get_default_graph().gradient_override_map({"IdentityN": "TowersMoments"}):
        outputs = tf.identity_n(inputs)
    if workers.num_workers > 1:
        collectives.remember(outputs[0].op, workers)
    return outputs[:num_towers], outputs[num_towers:2 * num_towers]


def _pivot_gradient(op, dy):
    return [None, None]


def _shift_gradient(op, dy):
    return [dy, None]


def _moments_gradient(op, *gradients):
    num_towers = (len(op.inputs) - 1) // 3
    centers, r, count = op.inputs[:num_towers], op.inputs[num_towers], op.inputs[len(op.inputs) - 1]
    dcenter, dr = (_over_towers(gradients[first:first + num_towers], r.device) for first in (0, num_towers))
    workers = collectives.remembered(op)
    if workers.num_workers > 1:
        dcenter, dr = tf.unstack(workers.sum(tf.stack([dcenter, dr]), "sync BN backward"))
    dh = -(r * r * r * dr) / count
    ds = dcenter / count
    zeros = constants.shared(0., ds.dtype, r.device, ds.shape.as_list())
    dpacked = [tf.stack([zeros, ds - dh * center, dh]) for center in centers]
    return [None] * (2 * num_towers) + dpacked + [None]


def _over_towers(vectors, device):
    """The sum of small vectors, one a tower, in as many ops for any number of towers."""
    if len(vectors) == 1:
        return vectors[0]
    return tf.reduce_sum(tf.stack(vectors), constants.shared(0, tf.int32, device))


if not versions.gradient_registered("TowersMoments"):  # a reloaded module must not register twice
    tf.RegisterGradient("TowersMoments")(_moments_gradient)
    tf.RegisterGradient("TowersPivot")(_pivot_gradient)
    tf.RegisterGradient("TowersShift")(_shift_gradient)
