"""Cheap activations computed again in the backward pass instead of kept for it.

The backward pass of a convolution reads its input, that of batch normalisation the shifted activations, that of a ReLU
its output; all of them follow by cheap, memory-bound ops from what convolutions gave. With recomputation only that is kept,
and the rest is computed a second time, by copies of the same ops, when the backward pass arrives there.

    kept:      outputs of convolutions and of all that is no cheap op, and every second sum of a chain of residual sums
    recopied:  normalisation, activation functions, sums, padding, concatenation, the layout changes of dilation

A copy waits, by a control dependency, for the gradient that its first consumer reads, so it runs no earlier. Gradients
are the same to the bit: the copies compute what the originals did.

A chain of residual sums x + f(x) would otherwise be computed again from its very beginning, all of it alive at once. After
Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016).
"""

import tensorflow.compat.v1 as tf

from towers import summation, versions

# BiasAdd is not among them: TensorFlow's optimiser makes one op of it and the convolution, which rounds once instead of
# twice in half precision, unless the convolution's own output has another reader.
_CHEAP = summation.KINDS + (
    "Sub", "Mul", "Neg", "Identity", "EnsureShape", "Cast", "FusedBatchNormV3", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu",
    "Tanh", "Sigmoid", "Softplus", "Pad", "PadV2", "ConcatV2", "Reshape", "Squeeze", "ExpandDims", "SpaceToBatchND",
    "BatchToSpaceND")

# Vectors and other small tensors are not worth a copy.
_SMALLEST = 2**12


def recompute(build, first_gradient_op):
    """Lets the gradient ops of a built step read copies of cheap activations.

    Args:
      build: the `building.Build` that made the towers.
      first_gradient_op: the number (`versions.op_id`) of the first op that the gradients made.

    Returns:
      How many activations are computed again: an int.
    """
    plan = _Plan(build, first_gradient_op)
    for tensor in sorted(plan.gates, key=lambda tensor: versions.op_id(tensor.op)):
        plan.copy(tensor)
    plan.redirect()
    return len(plan.gates)


class _Plan(object):
    """Which activations are computed again, when, and for whom."""

    def __init__(self, build, first_gradient_op):
        self._build, self._first = build, first_gradient_op
        self._sums = {}  # of each activation that is not kept: 1 where a residual sum is among what it is computed from
        self._copies = {}
        self._readers = []  # (gradient op, the activation it reads)
        self.gates = {}  # from an activation to the gradient op that first reads it, directly or through another copy
        for op in build.graph.get_operations():  # in the order in which they were made
            if versions.op_id(op) < first_gradient_op:
                self._classify(op)
                continue
            for tensor in set(op.inputs):
                if tensor in self._sums and self._gradients_read_by(op):
                    self._readers.append((op, tensor))
                    self._mark(tensor, op)

    def copy(self, tensor):
        """Makes the copy of an activation; what it is computed from was copied before, or is kept."""
        op = tensor.op
        inputs = [self._copies.get(source, source) for source in op.inputs]
        with tf.name_scope("recompute/"), tf.device(op.device):
            copied = versions.copy_op(op, inputs, self._gradients_read_by(self.gates[tensor]))
        self._copies[tensor] = copied.outputs[0]

    def redirect(self):
        """Makes gradient ops read the copies."""
        for op, tensor in self._readers:
            versions.replace_inputs(op, tensor, self._copies[tensor])

    def _classify(self, op):
        if not (op.type in _CHEAP and op.outputs and _is_large(op.outputs[0]) and self._build.tower_of(op) is not None
                and versions.op_control_flow_context(op) is None):
            return
        sums = max(self._sums.get(source, 0) for source in op.inputs)
        if op.type in summation.KINDS and sum(_is_large(source) for source in op.inputs) > 1:
            sums += 1
        if sums < 2:
            self._sums[op.outputs[0]] = sums

    def _mark(self, tensor, reader):
        """Notes that `reader` needs `tensor` again, and all that is not kept of what it is computed from."""
        pending = [tensor]
        while pending:
            current = pending.pop()
            gate = self.gates.get(current)
            if gate is None or versions.op_id(reader) < versions.op_id(gate):
                self.gates[current] = reader
                pending.extend(source for source in current.op.inputs if source in self._sums)

    def _gradients_read_by(self, op):
        return [t.op for t in op.inputs if versions.op_id(t.op) >= self._first and t.op.type != "Const"]


def _is_large(tensor):
    if not tensor.dtype.is_floating or tensor.shape.ndims is None or tensor.shape.ndims < 2:
        return False
    size = tensor.shape.num_elements()
    return size is None or size >= _SMALLEST
