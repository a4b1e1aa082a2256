"""Sums with one order of addition, so that a run twice gives the same bits.

`AddN` adds into whichever of its inputs nobody else needs any more, and begins with that one. Which it is depends on
what ran before: with three inputs or more, on the timing of the run. Two inputs add to the same either way, so a sum of
many is taken pair by pair, in the order of the list.

TensorFlow's optimiser makes one `AddN` of such a chain (`AddOpsRewrite`), unless something stands between its sums:
`EnsureShape`, which costs nothing, and which no version takes out.
"""

import functools

import tensorflow.compat.v1 as tf

from towers import versions

# What `tf.gradients` is to do where a tensor has several consumers: pair by pair, too.
GRADIENT_AGGREGATION = tf.AggregationMethod.EXPERIMENTAL_TREE

# The ops that add.
KINDS = ("Add", "AddV2", "AddN")


def in_order(tensors):
    """The sum of tensors of one shape and dtype, in the order of the list; any dtype that adds."""
    dtype = tensors[0].dtype
    if dtype.is_floating or dtype.is_integer or dtype.is_complex:
        return functools.reduce(lambda total, tensor: tf.add_n([_kept(total), _kept(tensor)]), tensors)
    return functools.reduce(tf.add, tensors)


def keep_order(operations):
    """Gives the sums of a graph one order of addition: sums of sums, whoever made them, and `AddN` of three or more.

    What reads such a sum reads another tensor from now on, so no op of `operations` may have run. Those within a `tf.cond`
    or `tf.while_loop` stay as they are.

    Args:
      operations: ops of one graph, in the order in which they were made.

    Returns:
      A dict from the name of each sum of three or more to the tensor that now takes its place.
    """
    replaced = {}
    for op in operations:
        if op.type not in KINDS or versions.op_control_flow_context(op) is not None:
            continue
        inputs = list(op.inputs)
        if len(inputs) < 3 and not any(_is_sum(tensor) for tensor in inputs):
            continue
        with tf.control_dependencies(None), tf.control_dependencies(op.control_inputs), tf.device(op.device), \
                tf.name_scope(op.name + "/in_order/"):
            if len(inputs) > 2 and _rounds(op.outputs[0]):
                old, readers = op.outputs[0], versions.consumers(op.outputs[0])
                replaced[old.name] = new = in_order(inputs)
                for reader in readers:
                    versions.replace_inputs(reader, old, new)
            else:
                for tensor in inputs:
                    versions.replace_inputs(op, tensor, _kept(tensor))
    return replaced


def _kept(tensor):
    """A tensor of the same values, of which no optimiser makes a part of another sum."""
    if not _is_sum(tensor):
        return tensor
    with tf.control_dependencies(None), tf.device(tensor.op.device):
        return tf.ensure_shape(tensor, tensor.shape)


def _is_sum(tensor):
    return tensor.op.type in KINDS and _rounds(tensor)


def _rounds(tensor):
    return tensor.dtype.is_floating or tensor.dtype.is_complex
