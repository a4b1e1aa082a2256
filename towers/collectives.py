"""Sums over workers: one collective op a sum, in one order on every worker.

The towers of a worker are combined on its aggregation device first; what is here goes on from there, over TensorFlow's
own `CollectiveReduce` between the workers' servers. The gradient of a sum over workers is the sum over workers of the
gradient: every worker holds its own losses, and the quantity that is differentiated is the sum of all of them.

Every collective of a build waits for the one that was made before it. All workers build the same graph, so all run
their collectives in one order; and whoever runs the train op runs every collective of the step, whatever else one of the
workers fetches besides.
"""

import copy
import functools

import numpy as np
import tensorflow.compat.v1 as tf

from towers import versions

# The key of the group that is all workers of a cluster; that of a part of them is larger.
_ALL = 1

# Gradients are packed into buckets of about this many bytes, each one collective.
BUCKET_BYTES = 32 * 2**20

# The attribute of a collective op that says what it is for ('': it never runs); it stays with the op in a file.
KIND = "_towers_kind"

_REDUCED = (tf.float32, tf.float64, tf.int32, tf.int64)


class OneWorker(object):
    """No other workers: every sum is what it sums."""

    num_workers = 1
    index = 0

    def sum(self, tensor, kind="other"):
        """`tensor`."""
        return tensor

    def sums(self, tensors, kind="other"):
        """`tensors`."""
        return list(tensors)

    def concat(self, tensor, axis=0, kind="other"):
        """`tensor`."""
        return tensor

    def group(self, size):
        """Itself: the one group of one worker."""
        return self


class Workers(object):
    """The workers of a cluster, as one build (or one broadcast) sees them; see `OneWorker` for the methods.

    `kind` says what a sum is for; `towers.inspect` counts by it.

    Args:
      cluster: a `Cluster`, which gives each collective its key.
      device: where the collectives run: the aggregation device.
    """

    def __init__(self, cluster, device):
        self.num_workers = cluster.num_workers
        self.index = cluster.task_index
        self._cluster = cluster
        self._device = device
        self._last = [None]  # the collective before, shared with the groups
        self._group_key, self._group_index, self._num_groups = _ALL, 0, 1

    def group(self, size):
        """This worker's group of `size` consecutive workers, a divisor of their number: sums over these only.

        Every worker is in a group of that size and makes the same sums in the same order, over its own group.
        """
        if size == self.num_workers:
            return self
        if size == 1:
            return OneWorker()
        group = copy.copy(self)  # with the same list `_last`
        group._num_groups, group._group_index = self.num_workers // size, self.index // size
        group._group_key = _ALL + self.num_workers * size + group._group_index  # no other size's: the index is smaller
        group.num_workers, group.index = size, self.index % size
        return group

    def sum(self, tensor, kind="other"):
        """The sum of `tensor` over all workers, on each: the same bits on all. One shape on all workers; differentiable."""
        dtype = tensor.dtype
        if dtype in _REDUCED:
            return self._reduce(tensor, kind)
        if dtype.is_floating:
            return tf.cast(self._reduce(tf.cast(tensor, tf.float32), kind), dtype)
        if dtype.is_complex:
            both = self._reduce(tf.stack([tf.real(tensor), tf.imag(tensor)]), kind)
            return tf.complex(both[0], both[1])
        if dtype == tf.uint64:  # the same bits, whatever the sign
            return tf.bitcast(self._reduce(tf.bitcast(tensor, tf.int64), kind), dtype)
        if dtype.is_integer:
            return tf.cast(self._reduce(tf.cast(tensor, tf.int64), kind), dtype)
        raise ValueError("a %s tensor (%s) cannot be summed over workers; wanted a number" % (dtype.name, tensor.name))

    def sums(self, tensors, kind="other"):
        """`sum` of each of `tensors`, whose shapes are known, packed into few collectives."""
        sums = [None] * len(tensors)
        for bucket in _buckets(tensors):
            parts = [tensors[i] for i in bucket]
            total = self.sum(tf.concat([tf.reshape(part, [-1]) for part in parts], 0) if len(parts) > 1 else parts[0], kind)
            if len(parts) == 1:
                sums[bucket[0]] = total
                continue
            sizes = [part.shape.num_elements() for part in parts]
            for i, part in zip(bucket, tf.split(total, sizes)):
                sums[i] = tf.reshape(part, tensors[i].shape)
        return sums

    def concat(self, tensor, axis=0, kind="other"):
        """All workers' `tensor` one behind the other along `axis`, in worker order; sizes along it may differ.

        Each is padded to the largest, put into a place of its own, and added to the others' zeros.
        """
        if tensor.dtype == tf.bool:
            return tf.cast(self.concat(tf.cast(tensor, tf.int32), axis, kind), tf.bool)
        rank = tensor.shape.ndims
        if rank is None or not -rank <= axis < rank:
            raise ValueError("tensor %s of shape %s cannot be concatenated over workers along axis %d; wanted a known rank "
                             "and one of its axes" % (tensor.name, tensor.shape, axis))
        axis %= rank
        before, after = self.index, self.num_workers - 1 - self.index
        sizes = self.sum(tf.pad(tf.shape(tensor)[axis:axis + 1], [[before, after]]), kind)
        missing = tf.reduce_max(sizes) - tf.shape(tensor)[axis]
        paddings = [[before, after]] + [[0, missing if i == axis else 0] for i in range(rank)]
        places = tf.unstack(self.sum(tf.pad(tensor[tf.newaxis], paddings), kind), num=self.num_workers)
        own = [place[(slice(None),) * axis + (slice(0, sizes[i]),)] for i, place in enumerate(places)]
        result = tf.concat(own, axis)
        result.set_shape(tensor.shape[:axis].concatenate([None]).concatenate(tensor.shape[axis + 1:]))
        return result

    def _reduce(self, tensor, kind):
        graph, last = tensor.graph, self._last[0]
        key, first = self._cluster.new_key(), [] if last is None else [last]
        if self._num_groups > 1 and not versions.collective_keys_are_by_group():
            key, absent = self._part_in_key(tensor, key, self._cluster.new_key())
            first.append(absent)
        with tf.name_scope("all_workers"), tf.device(self._device), \
                tf.control_dependencies(first), \
                graph.gradient_override_map({"CollectiveReduce": "TowersWorkerSum"}):
            total = tf.raw_ops.CollectiveReduce(
                input=tensor, group_size=self.num_workers, group_key=self._group_key, instance_key=key,
                merge_op="Add", final_op="Id", subdiv_offsets=[0])
        total.set_shape(tensor.shape)
        self._last[0] = total.op
        versions.set_op_note(total.op, KIND, kind)
        remember(total.op, self)
        return total


    def _part_in_key(self, tensor, key, other_key):
        """For TensorFlows that tell collectives apart by key only: which of two keys is this group's, and an op to run first.

        The leader, worker 0, takes all collectives of one key for one and the same group, so that its own group's must have
        another than the other groups'. But workers step together only where their graphs hold the same keys: the other
        key stands in the graph too, in a collective that never runs.
        """
        own, absent = (key, other_key) if self._group_index == 0 else (other_key, key)
        with tf.name_scope("other_groups"), tf.device(self._device), tf.control_dependencies(None):
            never = tf.reduce_any(tf.square(tensor) < 0)  # which no optimiser sees
            here, nowhere = tf.raw_ops.Switch(data=tensor, pred=never)
            total = tf.raw_ops.CollectiveReduce(
                input=nowhere, group_size=self.num_workers, group_key=self._group_key, instance_key=absent,
                merge_op="Add", final_op="Id", subdiv_offsets=[0])
            versions.set_op_note(total.op, KIND, "")
            return own, tf.raw_ops.Merge(inputs=[here, total]).output.op


def of(cluster, device):
    """The `Workers` of a cluster, or `OneWorker` where there is none (or it has one worker)."""
    return OneWorker() if cluster is None or cluster.num_workers == 1 else Workers(cluster, device)


def remember(op, workers):
    """Notes whose workers the gradient of `op` sums over."""
    versions.graph_notes(op.graph)[op.name] = workers


def remembered(op):
    """The workers noted for `op`; no others where none were."""
    return versions.graph_notes(op.graph).get(op.name) or OneWorker()


def _buckets(tensors):
    """Lists of indices into `tensors`, of one dtype and at most `BUCKET_BYTES` each (one larger tensor stands alone)."""
    buckets, filled = [], {}
    for i, tensor in enumerate(tensors):
        size = functools.reduce(np.multiply, tensor.shape.as_list(), 1) * tensor.dtype.size
        used, bucket = filled.get(tensor.dtype, (0, None))
        if bucket is None or used + size > BUCKET_BYTES:
            used, bucket = 0, []
            buckets.append(bucket)
        bucket.append(i)
        filled[tensor.dtype] = used + size, bucket
    return buckets


def _sum_gradient(op, dy):
    return remembered(op).sum(dy)


if not versions.gradient_registered("TowersWorkerSum"):  # a reloaded module must not register twice
    tf.RegisterGradient("TowersWorkerSum")(_sum_gradient)
