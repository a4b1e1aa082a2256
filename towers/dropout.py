"""Dropout whose masks do not depend on the number of towers, and are the same again when a run resumes.

A mask is a pure function of (seed, step, layer, the example's place in the whole batch): tower i draws the rows of the
whole batch's mask up to its own last one, and keeps its own. With b_j the batch sizes of the towers' inputs, an
activation of k b_i rows on tower i begins at row k (b_0 + ... + b_{i-1}). No tower waits for another; the workers of a
cluster tell each other their batch sizes, once a step.

The step is the global step of the train step being built. Without one (`build` in a graph that has none, a layer outside
a build, dropout at inference) nothing counts the runs, and each run draws a fresh key, still the same on all towers. A
layer in the body of a loop has one mask for all rounds of a step.
"""

import numbers
import zlib

import tensorflow.compat.v1 as tf

from towers import scopes
from towers.tower import current_tower

_FAR = 2**20  # rows between towers whose activations are no whole multiple of their batch


def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=None, name=None):
    """Sets a share `rate` of the inputs to 0 and divides the others by `1 - rate`, in training.

    Args:
      inputs: a float tensor `[N, ...]`.
      rate: the share to drop, in [0, 1); a number or a scalar tensor.
      noise_shape: the shape of the mask, which broadcasts to `inputs`; `None` entries are taken from `inputs`. For
        `[N, H, W, C]`, `(None, 1, 1, None)` drops whole channels.
      seed: an integer; with it, or with a graph seed, masks are reproducible.
      training: a bool, a scalar bool tensor, or `None` for `current_tower().training`.
      name: the name scope.

    Returns:
      A tensor like `inputs`.

    Raises:
      ValueError: `rate` is out of its range, or the inputs are not of a float dtype.
    """
    x = tf.convert_to_tensor(inputs)
    if not x.dtype.is_floating:
        raise ValueError("inputs of dropout are %s; wanted a float dtype" % x.dtype.name)
    if isinstance(rate, numbers.Real) and not 0 <= rate < 1:
        raise ValueError("rate is %r; wanted the share to drop, at least 0 and below 1" % rate)
    tower = current_tower()
    training = scopes.constant_bool(tower.training if training is None else training)
    with scopes.layer(name, "dropout", None):
        if training is False or (isinstance(rate, numbers.Real) and rate == 0):
            return tf.identity(x)
        shape = _noise_shape(x, noise_shape)
        rows = shape[0] if x.shape.ndims != 0 else tf.constant(1)
        first = _first_row(tower, rows, tf.shape(x)[0])
        key = _key(tower, seed, tower.unique_layer(tf.get_variable_scope().name))
        drawn = tf.random.stateless_uniform(tf.concat([[first + rows], shape[1:]], 0), seed=key)
        dtype = tf.float32 if x.dtype in (tf.float16, tf.bfloat16) else x.dtype  # 1.15 cannot divide bfloat16 on CPUs
        keep = tf.cast(drawn[first:] >= tf.cast(rate, tf.float32), dtype)
        y = x * tf.cast(keep / (1 - tf.cast(rate, dtype)), x.dtype)
        y.set_shape(x.shape)
        if training is not True:
            y = tf.where(tf.logical_and(training, tf.ones_like(x, dtype=tf.bool)), y, x)
        return y


def _noise_shape(x, noise_shape):
    """The mask's shape, an int32 vector."""
    shape = tf.shape(x)
    if noise_shape is None:
        return shape
    if isinstance(noise_shape, (list, tuple)):
        return tf.stack([shape[i] if size is None else size for i, size in enumerate(noise_shape)])
    return tf.cast(noise_shape, tf.int32)


def _first_row(tower, rows, batch):
    """The place of this tower's first row in the whole batch; 0 for a mask that all examples share."""
    if tower.num_towers == 1:
        return tf.constant(0)
    sizes = tower._build.batch_sizes()
    if any(size is None for size in sizes):
        first = tower.index * batch
    else:
        own = tf.maximum(sizes[tower.local_index], 1)
        before = sum(sizes[:tower.local_index], tower._build.examples_before())
        whole = tf.equal(batch % own, 0)
        first = tf.where(whole, batch // own * before, tower.index * _FAR + tf.zeros_like(before))
    return tf.where(tf.equal(rows, batch), first, tf.zeros_like(first))


def _key(tower, seed, layer):
    """The stateless key of this layer's mask in this step: an int32 tensor `[2]`, the same on every tower."""
    graph_seed = tf.get_default_graph().seed
    own = "%s %s %s" % (graph_seed, seed, layer)
    low = zlib.crc32(own.encode("utf-8")) & 0x7fffffff
    build = tower._build
    step = build.global_step if build is not None and tower.training else None
    if step is not None and not (graph_seed is None and seed is None):
        return tf.stack([tf.constant(low), tf.cast(step, tf.int32)])
    drawn = _drawn_key(build, layer, seed, low)
    return drawn if step is None else drawn + tf.stack([0, tf.cast(step, tf.int32)])


def _drawn_key(build, layer, seed, low):
    """A key drawn anew in every run; tower 0's serves all towers."""
    shared = {} if build is None else build.shared
    name = "dropout", layer
    if name not in shared:
        with tf.init_scope():
            limit = 2**31 - 1
            shared[name] = tf.random_uniform([2], maxval=limit, dtype=tf.int32, seed=low if seed is not None else None)
    return shared[name]
