"""Batch norm at inference, folded into the convolution before it while the graph is built.

    y = (conv(x, K) - mean) · gamma / sqrt(var + eps) + beta
      = conv(x, K · a) + b        a = gamma / sqrt(var + eps),  b = beta - mean · a

One pass over an activation less, and TensorFlow runs convolution, bias and ReLU as one op. K · a is computed anew in every
run, from the variables as they are, so weights may be loaded at any time; for a network that is frozen there is `folding`,
which also folds what was not made with it.
"""

import functools

import tensorflow.compat.v1 as tf

import towers


def folded_normalisation(model_config):
    """`norm(inputs, name=...)` for `pspnet.pspnet`, at inference: the same variables and the same numbers, to rounding."""
    return functools.partial(folded_batch_norm, epsilon=model_config.norm_epsilon)


def folded_batch_norm(inputs, name, epsilon=1e-3):
    """Normalises `inputs` [N, H, W, C] by the moving statistics.

    The variables are those of `towers.layers.batch_normalization(inputs, name=name)`. Where `inputs` come from no
    convolution of channels-last images, dilated or not, that is what it calls.
    """
    convolution = _convolution(inputs.op)
    if convolution is None:
        return towers.layers.batch_normalization(inputs, epsilon=epsilon, training=False, name=name)
    channels = [inputs.shape.as_list()[-1]]
    with tf.variable_scope(name):
        def variable(name, initializer, trainable):
            return tf.get_variable(name, channels, inputs.dtype, initializer, trainable=trainable)

        gamma = variable("gamma", tf.ones_initializer(), True)
        beta = variable("beta", tf.zeros_initializer(), True)
        mean = variable("moving_mean", tf.zeros_initializer(), False)
        variance = variable("moving_variance", tf.ones_initializer(), False)
        scale = gamma * tf.rsqrt(variance + epsilon)
        return tf.nn.bias_add(convolution(scale), beta - mean * scale)


def _convolution(op):
    """A function from a scale [C] to the result of `op`, a convolution, with its kernel scaled; None for another op."""
    if op.type == "BatchToSpaceND":  # of a dilated one
        inner = _convolution(op.inputs[0].op)
        return inner and (lambda scale: _like(op.outputs[0], tf.raw_ops.BatchToSpaceND(
            input=inner(scale), block_shape=op.inputs[1], crops=op.inputs[2])))
    if op.type != "Conv2D" or op.get_attr("data_format") != b"NHWC":
        return None
    attributes = {name: op.get_attr(name) for name in ("strides", "padding", "explicit_paddings", "dilations")}
    attributes["padding"] = attributes["padding"].decode()
    return lambda scale: _like(op.outputs[0], tf.raw_ops.Conv2D(
        input=op.inputs[0], filter=op.inputs[1] * scale, **attributes))


def _like(tensor, result):
    result.set_shape(tensor.shape)
    return result
