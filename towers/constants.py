"""Constants made once for a graph and a device, however many layers and towers use them.

A deep network has hundreds of layers whose arithmetic needs the same few numbers; made anew in each, they were a third
of all ops of a tower.
"""

import tensorflow.compat.v1 as tf

from towers import versions


def shared(value, dtype, device, shape=()):
    """A constant, the same one for the same arguments in one graph.

    One of its own inside control flow and functions, where the value of a tensor from outside is not known any more, nor
    the shapes that follow from it.

    Args:
      value: a number, or a tuple of numbers (then `shape` is left out).
      dtype: its dtype.
      device: where it is made: the device string of the tensor that it meets.
      shape: the shape that a number is repeated to.
    """
    graph = tf.get_default_graph()
    if graph.building_function or versions.control_flow_context(graph) is not None:
        return _make(value, dtype, shape)
    made = versions.graph_notes(graph)
    key = "constant", value, tf.as_dtype(dtype), device, tuple(shape)
    if key not in made:
        with tf.control_dependencies(None), tf.name_scope("towers_constants/"), tf.device(device):
            made[key] = _make(value, dtype, shape)
    return made[key]


def _make(value, dtype, shape):
    return tf.constant(value, dtype) if isinstance(value, tuple) else tf.constant(value, dtype, list(shape))
