"""Scopes of the layers: the variable names and automatic names of `tf.compat.v1.layers`."""

import contextlib

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util


@contextlib.contextmanager
def layer(name, default_name, reuse):
    """The scope of a layer: variable scope `name`, or `default_name` made unique (`conv2d`, `conv2d_1`, ...)."""
    if name is None and reuse:
        name = default_name  # as tf.layers does
    with tf.variable_scope(name, default_name=default_name, reuse=reuse):
        yield


def no_regularizer(_):
    """Stands for "none" where `regularizer=None` would mean the enclosing variable scope's."""
    return None


def constant_bool(value):
    """`value` as a Python bool where it is one or a constant tensor, else the scalar bool tensor."""
    if isinstance(value, (bool, int)):
        return bool(value)
    value = tf.convert_to_tensor(value)
    if value.dtype != tf.bool or value.shape.ndims not in (None, 0):
        raise ValueError("training is a tensor %s of shape %s; wanted a bool, a scalar bool tensor or None"
                         % (value.dtype.name, value.shape))
    known = tensor_util.constant_value(value)
    return value if known is None else bool(known)
