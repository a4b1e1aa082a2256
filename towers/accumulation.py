"""One update from the gradients of several runs of the step, for batches that do not fit at once.

Every run adds its averaged gradients to sums kept in local variables; every k-th run applies their mean and clears them.
With g_j the gradient of micro-batch j, the update takes (g_1 + ... + g_k) / k: that of one batch k times as large where
micro-batches are equal and the loss is a mean over examples. Batch normalisation is what it is on each micro-batch: its
statistics are those of one micro-batch over all towers (never of k together), and its moving averages move at every run.
"""

import tensorflow.compat.v1 as tf


class Accumulator(object):
    """Sums of gradients over runs of the step.

    Made before the towers; `add` is called once, with their gradients.

    Args:
      steps: how many runs make one update, k.
      global_step: the variable that counts updates.

    Attributes:
      run: which run this is, over all updates: a scalar int64 tensor.
      means: pairs of the mean over the runs since the last update, this one included; slices stay slices.
      due: a scalar bool tensor: whether this run completes the k.
    """

    def __init__(self, steps, global_step):
        self._steps = steps
        with tf.name_scope("accumulate"):
            self._count = _local(tf.zeros([], tf.int64), "micro_batches")
            # Read early, and written behind all gradients, so behind whatever depends on it.
            self.run = tf.cast(global_step, tf.int64) * steps + self._count.read_value()

    def add(self, grads_and_vars, valid=None):
        """Adds the averaged pairs of this run, unless the scalar bool tensor `valid` is false."""
        steps = self._steps
        with tf.name_scope("accumulate"):
            self._sums = [_sum_of(gradient, variable, valid) for gradient, variable in grads_and_vars]
            added = [op for total in self._sums for op in total.added]
            with tf.control_dependencies(added):
                one = tf.constant(1, tf.int64) if valid is None else tf.cast(valid, tf.int64)
                count = self._count.assign_add(one)
                self.due = tf.equal(count, steps) if valid is None else tf.equal(count, steps) & valid
                self.means = [(total.mean(steps), variable) for total, (_, variable) in zip(self._sums, grads_and_vars)]

    def clear(self):
        """An op that starts the next k; to be run after the means were used."""
        return tf.group(self._count.assign(tf.zeros_like(self._count)), *[total.clear() for total in self._sums])


class _Dense(object):

    def __init__(self, gradient, variable, valid):
        self._total = _local(tf.zeros(variable.shape, gradient.dtype), variable.op.name)
        self.added = [self._total.assign_add(_if_valid(gradient, valid), read_value=False)]

    def mean(self, steps):
        return self._total.read_value() / tf.constant(steps, self._total.dtype)

    def clear(self):
        return self._total.assign(tf.zeros_like(self._total))


class _Slices(object):
    """Keeps which rows were touched, so that the others stay out of the update."""

    def __init__(self, gradient, variable, valid):
        rows = variable.shape.as_list()[0]
        self._shape = gradient.dense_shape
        self._total = _local(tf.zeros(variable.shape, gradient.values.dtype), variable.op.name)
        self._touched = _local(tf.zeros([rows], tf.int32), variable.op.name + "/rows")
        ones = tf.ones_like(gradient.indices, tf.int32)
        self.added = [
            self._total.scatter_add(tf.IndexedSlices(_if_valid(gradient.values, valid), gradient.indices)).op,
            self._touched.scatter_add(tf.IndexedSlices(_if_valid(ones, valid), gradient.indices)).op]

    def mean(self, steps):
        indices = tf.where(self._touched.read_value() > 0)[:, 0]
        values = tf.gather(self._total.read_value(), indices) / tf.constant(steps, self._total.dtype)
        return tf.IndexedSlices(values, indices, self._shape)

    def clear(self):
        return tf.group(self._total.assign(tf.zeros_like(self._total)), self._touched.assign(tf.zeros_like(self._touched)))


def _sum_of(gradient, variable, valid):
    with tf.colocate_with(variable.op):
        return (_Slices if isinstance(gradient, tf.IndexedSlices) else _Dense)(gradient, variable, valid)


def _if_valid(tensor, valid):
    return tensor if valid is None else tf.where_v2(valid, tensor, tf.zeros_like(tensor))


def _local(initial_value, name):
    """A local variable: `tf.local_variables_initializer` and every monitored session set it; checkpoints do not hold it."""
    return tf.Variable(initial_value, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=True,
                       name="accumulated/" + name)
