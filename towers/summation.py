"""Sums with one order of addition, so that a run twice gives the same bits.

`AddN` adds into whichever of its inputs nobody else needs any more, and begins with that one. Which it is depends on
what ran before: with three inputs or more, on the timing of the run. Two inputs add to the same either way, so a sum of
many is taken pair by pair, in the order of the list. (TensorFlow's optimiser leaves such a chain as it is.)
"""

import functools

import tensorflow.compat.v1 as tf

# What `tf.gradients` is to do where a tensor has several consumers: pair by pair, too.
GRADIENT_AGGREGATION = tf.AggregationMethod.EXPERIMENTAL_TREE


def in_order(tensors):
    """The sum of tensors of one shape and dtype, in the order of the list; any dtype that adds."""
    dtype = tensors[0].dtype
    if dtype.is_floating or dtype.is_integer or dtype.is_complex:
        return functools.reduce(lambda total, tensor: tf.add_n([total, tensor]), tensors)
    return functools.reduce(tf.add, tensors)
