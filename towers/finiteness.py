"""Whether the losses and gradients of a step are finite, decided before they are applied.

    losses, averaged gradients ──► all finite? ──► (fails the step) ──► accumulate, transform, apply

A NaN or infinity in any tower's gradient, on any worker, is one in the average, so the average is looked at, once: no
number is changed, no collective is added, and every worker decides alike. Where the check fails, the run of the step fails,
and weights, slots, sums of accumulated gradients and global step are what they were before it. (Moving statistics are
written earlier in a step, and never with what is not finite.)
"""

import collections
import re

import numpy as np
import tensorflow.compat.v1 as tf

from towers import versions
from towers.gradients import ancestors

_MARK = "first_that_is_not_finite"

NotFinite = collections.namedtuple("NotFinite", "tensor tower what")
NotFinite.__doc__ = """The first tensor of a step that is not finite.

    tensor: its name
    tower: which tower of this worker made it; None for what all share
    what: what is in it, such as '3 nan, 0 inf of 128 values'
"""


class FiniteCheck(object):
    """The check of one step.

    Args:
      losses: each tower's loss.
      loss: their mean over all workers.
      averaged: the (gradient, variable) pairs.
      tower_gradients: for each tower, its gradients in the same order.
      build: the `building.Build` that made the towers.

    Attributes:
      worker: which worker this is, 0 where it is alone.
    """

    def __init__(self, losses, loss, averaged, tower_gradients, build):
        self._losses, self._tower_gradients, self._build = losses, tower_gradients, build
        self._variables = [variable.op.name for _, variable in averaged]
        self._names = (["the loss of tower %d" % i for i in range(len(losses))] + ["the mean loss"] +
                       ["the averaged gradient of %s" % name for name in self._variables])
        self.worker = build.workers.index
        with tf.name_scope("check_finite"):
            finite = _all_finite(list(losses) + [loss] + [_values(gradient) for gradient, _ in averaged])
            first = tf.argmin(tf.cast(finite, tf.int32))
            with tf.device("/cpu:0"):
                self._assert = tf.raw_ops.Assert(
                    condition=tf.reduce_all(finite), data=[tf.constant(_MARK), first], name="assert")

    def gate(self, averaged):
        """The pairs again, which are there only where all is finite."""
        with tf.name_scope("check_finite"), tf.control_dependencies([self._assert]):
            return [(_identity(gradient), variable) for gradient, variable in averaged]

    def failed(self, error):
        """What was not finite, in words, if `error` (a `tf.errors.OpError`) is a failure of this check; else None."""
        found = re.search(_MARK + r"\D*\[(\d+)\]", getattr(error, "message", None) or "")
        return self._names[int(found.group(1))] if found else None

    def first(self, session, feed_dict):
        """The first tensor of a step that is not finite, found by running it again without its update.

        Looked at are, in this order: what the towers' forward passes compute, in the order in which it was built, up to
        the losses; then each variable's gradients, in the order of the variables, tower by tower. Adds ops to the graph,
        though it may be finalised: for a run that ends with this.

        Args:
          session: the session, its variables as the failed step found them.
          feed_dict: makes the step see the batch that it failed with.

        Returns:
          A `NotFinite`, or None where all is finite this time, or where there are other workers (which would have to run
          the same things at the same time).
        """
        if self._build.workers.num_workers > 1:
            return None
        forward = [(tensor, self._build.tower_of(tensor.op), "") for tensor in _forward(self._losses)]
        backward = [(_values(gradients[place]), tower, ", the gradient of %s" % name)
                    for place, name in enumerate(self._variables)
                    for tower, gradients in enumerate(self._tower_gradients) if gradients[place] is not None]
        graph = self._losses[0].graph
        with versions.unfinalized(graph), graph.as_default():
            for part in filter(None, (forward, backward)):
                finite = session.run(_all_finite([tensor for tensor, _, _ in part]), feed_dict)
                if not finite.all():
                    tensor, tower, role = part[int(np.argmin(finite))]
                    value = np.asarray(session.run(tensor, feed_dict), np.float64)
                    return NotFinite(tensor.name + role, tower, "%d nan, %d inf of %d values" % (
                        np.isnan(value).sum(), np.isinf(value).sum(), value.size))
        return None


def _all_finite(tensors):
    """For each of the tensors, on its device, whether all of it is finite: a vector of bools."""
    flags = []
    for tensor in tensors:
        with tf.device(tensor.op.device):
            tensor = tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor  # no such kernel in 1.15
            flags.append(tf.reduce_all(tf.is_finite(tensor)))
    return tf.stack(flags)


def _forward(losses):
    """The float tensors from which losses are computed, in the order in which they were built."""
    return [tensor for op in sorted(ancestors(losses), key=versions.op_id)
            if versions.op_control_flow_context(op) is None
            # What FusedBatchNorm hands to its gradient has other shapes than it says.
            for tensor in (op.outputs[:3] if op.type.startswith("FusedBatchNorm") else op.outputs)
            if tensor.dtype.is_floating and tensor.dtype == tensor.dtype.base_dtype
            and (tensor.consumers() or any(tensor is loss for loss in losses))]


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _identity(gradient):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.identity(gradient.values), tf.identity(gradient.indices), gradient.dense_shape)
    return tf.identity(gradient)
