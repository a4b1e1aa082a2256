"""Layers with the signatures, variable names and defaults of `tf.compat.v1.layers`, which newer TensorFlow lacks.

They work in a tower and outside of one. One default differs: `training=None` (batch normalisation, dropout) means
`current_tower().training`; a bool or a scalar bool tensor overrides it.

In all of them `data_format` is `'channels_last'` (`[N, H, W, C]`) or `'channels_first'` (`[N, C, H, W]`; most of its
kernels exist on GPUs only), sizes are an int or a pair (height, width), `padding` is `'valid'` or `'same'`, and a
regulariser's loss goes into REGULARIZATION_LOSSES. Variables have the dtype of the inputs.
"""

import numbers

import tensorflow.compat.v1 as tf

from towers import batch_norm, scopes
from towers.dropout import dropout  # noqa: F401  (a layer like the others)

_zeros = tf.zeros_initializer()
_ones = tf.ones_initializer()


def conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last",
           dilation_rate=(1, 1), activation=None, use_bias=True, kernel_initializer=None, bias_initializer=_zeros,
           kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
           bias_constraint=None, trainable=True, name=None, reuse=None):
    """2-D convolution: `[N, H, W, C]` to `[N, H', W', filters]`; variables `kernel` [kh, kw, C, filters] and `bias`."""
    x = _images(inputs, "conv2d")
    channels = _channels(x, data_format)
    with scopes.layer(name, "conv2d", reuse):
        kernel = _variable("kernel", _pair(kernel_size, "kernel_size") + [channels, filters], x, kernel_initializer,
                           kernel_regularizer, kernel_constraint, trainable)
        step, rate, data_format = _pair(strides, "strides"), _pair(dilation_rate, "dilation_rate"), _format(data_format)
        if rate == [1, 1]:
            step = [1] + step + [1] if data_format == "NHWC" else [1, 1] + step
            y = tf.nn.conv2d(x, kernel, strides=step, padding=_padding(padding), data_format=data_format)
        else:  # tf.nn.conv2d(dilations=...) has no gradient on CPUs; tf.nn.convolution has one everywhere
            y = tf.nn.convolution(x, kernel, _padding(padding), strides=step, dilation_rate=rate,
                                  data_format=data_format)
        if use_bias:
            bias = _variable("bias", [filters], x, bias_initializer, bias_regularizer, bias_constraint, trainable)
            y = tf.nn.bias_add(y, bias, data_format=data_format)
        return _finish(y, activation, activity_regularizer)


def conv2d_transpose(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last",
                     activation=None, use_bias=True, kernel_initializer=None, bias_initializer=_zeros,
                     kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """Transposed convolution, the gradient of `conv2d`: `kernel` is [kh, kw, filters, C]; 'same' gives H' = H stride."""
    x = _images(inputs, "conv2d_transpose")
    channels = _channels(x, data_format)
    size, stride = _pair(kernel_size, "kernel_size"), _pair(strides, "strides")
    with scopes.layer(name, "conv2d_transpose", reuse):
        kernel = _variable("kernel", size + [filters, channels], x, kernel_initializer, kernel_regularizer,
                           kernel_constraint, trainable)
        first = 1 if data_format == "channels_last" else 2
        known, dynamic, extra = x.shape.as_list(), tf.shape(x), []
        for i in range(2):
            # 'valid' gives what a forward convolution needs so that every input cell is reached.
            extra.append(max(size[i] - stride[i], 0) if _padding(padding) == "VALID" else 0)
        spatial = [dynamic[first + i] * stride[i] + extra[i] for i in range(2)]
        static = [None if known[first + i] is None else known[first + i] * stride[i] + extra[i] for i in range(2)]
        shape, static_shape = ([dynamic[0]] + spatial + [filters], [known[0]] + static + [filters])
        step = [1] + stride + [1]
        if first == 2:
            shape, static_shape, step = [
                [s[0], s[3], s[1], s[2]] for s in (shape, static_shape, step)]
        y = tf.nn.conv2d_transpose(x, kernel, tf.stack(shape), step, padding=_padding(padding),
                                   data_format=_format(data_format))
        y.set_shape(static_shape)
        if use_bias:
            bias = _variable("bias", [filters], x, bias_initializer, bias_regularizer, bias_constraint, trainable)
            y = tf.nn.bias_add(y, bias, data_format=_format(data_format))
        return _finish(y, activation, activity_regularizer)


def separable_conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid", data_format="channels_last",
                     dilation_rate=(1, 1), depth_multiplier=1, activation=None, use_bias=True,
                     depthwise_initializer=None, pointwise_initializer=None, bias_initializer=_zeros,
                     depthwise_regularizer=None, pointwise_regularizer=None, bias_regularizer=None,
                     activity_regularizer=None, depthwise_constraint=None, pointwise_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """Depthwise then 1x1 convolution; variables `depthwise_kernel` [kh, kw, C, multiplier], `pointwise_kernel`, `bias`."""
    x = _images(inputs, "separable_conv2d")
    channels = _channels(x, data_format)
    stride = _pair(strides, "strides")
    step = [1] + stride + [1] if data_format == "channels_last" else [1, 1] + stride
    with scopes.layer(name, "separable_conv2d", reuse):
        depthwise = _variable("depthwise_kernel", _pair(kernel_size, "kernel_size") + [channels, depth_multiplier], x,
                              depthwise_initializer, depthwise_regularizer, depthwise_constraint, trainable)
        pointwise = _variable("pointwise_kernel", [1, 1, channels * depth_multiplier, filters], x, pointwise_initializer,
                              pointwise_regularizer, pointwise_constraint, trainable)
        y = tf.nn.separable_conv2d(x, depthwise, pointwise, step, _padding(padding),
                                   rate=_pair(dilation_rate, "dilation_rate"), data_format=_format(data_format))
        if use_bias:
            bias = _variable("bias", [filters], x, bias_initializer, bias_regularizer, bias_constraint, trainable)
            y = tf.nn.bias_add(y, bias, data_format=_format(data_format))
        return _finish(y, activation, activity_regularizer)


def dense(inputs, units, activation=None, use_bias=True, kernel_initializer=None, bias_initializer=_zeros,
          kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
          bias_constraint=None, trainable=True, name=None, reuse=None):
    """Matrix product with the last axis: `[..., C]` to `[..., units]`; variables `kernel` [C, units] and `bias`."""
    x = tf.convert_to_tensor(inputs)
    channels = x.shape.as_list()[-1] if x.shape.ndims else None
    if channels is None or x.shape.ndims < 2:
        raise ValueError("inputs of dense have shape %s; wanted rank 2 or more and a known last axis" % x.shape)
    with scopes.layer(name, "dense", reuse):
        kernel = _variable("kernel", [channels, units], x, kernel_initializer, kernel_regularizer, kernel_constraint,
                           trainable)
        y = tf.matmul(x, kernel) if x.shape.ndims == 2 else tf.tensordot(x, kernel, [[x.shape.ndims - 1], [0]])
        y.set_shape(x.shape.as_list()[:-1] + [units])
        if use_bias:
            y = tf.nn.bias_add(y, _variable("bias", [units], x, bias_initializer, bias_regularizer, bias_constraint,
                                            trainable))
        return _finish(y, activation, activity_regularizer)


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True, beta_initializer=_zeros,
                        gamma_initializer=_ones, moving_mean_initializer=_zeros, moving_variance_initializer=_ones,
                        beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                        training=None, trainable=True, name=None, reuse=None, renorm=False, renorm_clipping=None,
                        renorm_momentum=0.99, fused=None, virtual_batch_size=None, adjustment=None, sync=False,
                        statistics="sum", group_size=None):
    """Batch normalisation with each tower's own statistics; with `sync=True`, `towers.sync_bn`.

    The moving averages keep tower 0's statistics, and the moving variance is unbiased where TensorFlow's fused op would
    be (rank 4, channels in axis 1 or 3, not float64, `fused` not False). Arguments as in `towers.sync_bn`.
    """
    arguments = dict(locals())
    del arguments["sync"]
    if sync:
        return batch_norm.sync_bn(**arguments)
    return batch_norm.batch_normalization(arguments)


def max_pooling2d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The largest value of each window of `pool_size`, every `strides`; padding does not count."""
    return _pool(tf.nn.max_pool, "max_pooling2d", inputs, pool_size, strides, padding, data_format, name)


def average_pooling2d(inputs, pool_size, strides, padding="valid", data_format="channels_last", name=None):
    """The mean of each window of `pool_size`, every `strides`; padding does not count."""
    return _pool(tf.nn.avg_pool, "average_pooling2d", inputs, pool_size, strides, padding, data_format, name)


def flatten(inputs, name=None, data_format="channels_last"):
    """`[N, ...]` to `[N, product of the rest]`; channels first are moved last before."""
    x = tf.convert_to_tensor(inputs)
    with scopes.layer(name, "flatten", None):
        _format(data_format)
        rank = x.shape.ndims
        if data_format == "channels_first" and rank is not None and rank > 2:
            x = tf.transpose(x, [0] + list(range(2, rank)) + [1])
        sizes = x.shape.as_list()[1:] if rank is not None else [None]
        known = None
        if None not in sizes:
            known = 1
            for size in sizes:
                known *= size
        if known is not None:
            y = tf.reshape(x, tf.stack([tf.shape(x)[0], known]))  # -1 would not do for an empty batch
        else:
            y = tf.reshape(x, tf.stack([tf.shape(x)[0], tf.reduce_prod(tf.shape(x)[1:])]))
        y.set_shape([x.shape.as_list()[0] if rank is not None else None, known])
        return y


def _pool(op, kind, inputs, pool_size, strides, padding, data_format, name):
    x = _images(inputs, kind)
    size, step = _pair(pool_size, "pool_size"), _pair(strides, "strides")
    if _format(data_format) == "NHWC":
        size, step = [1] + size + [1], [1] + step + [1]
    else:
        size, step = [1, 1] + size, [1, 1] + step
    with scopes.layer(name, kind, None):
        return op(x, ksize=size, strides=step, padding=_padding(padding), data_format=_format(data_format))


def _variable(name, shape, x, initializer, regularizer, constraint, trainable):
    return tf.get_variable(name, shape, x.dtype, initializer=initializer, regularizer=regularizer,
                           constraint=constraint, trainable=trainable)


def _finish(y, activation, activity_regularizer):
    if activation is not None:
        y = activation(y)
    if activity_regularizer is not None:
        with tf.name_scope("ActivityRegularizer"):
            # As tf.layers: divided by the batch size, so that it is a mean over examples.
            loss = activity_regularizer(y) / tf.cast(tf.shape(y)[0], y.dtype)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
    return y


def _images(inputs, kind):
    x = tf.convert_to_tensor(inputs)
    if x.shape.ndims != 4:
        raise ValueError("inputs of %s have shape %s; wanted rank 4" % (kind, x.shape))
    return x


def _channels(x, data_format):
    channels = x.shape.as_list()[3 if _format(data_format) == "NHWC" else 1]
    if channels is None:
        raise ValueError("inputs have shape %s; the channels must be known" % x.shape)
    return channels


def _format(data_format):
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError("data_format is %r; wanted 'channels_last' or 'channels_first'" % (data_format,))
    return "NHWC" if data_format == "channels_last" else "NCHW"


def _padding(padding):
    if not isinstance(padding, str) or padding.lower() not in ("valid", "same"):
        raise ValueError("padding is %r; wanted 'valid' or 'same'" % (padding,))
    return padding.upper()


def _pair(value, name):
    pair = [value, value] if isinstance(value, numbers.Integral) else list(value)
    if len(pair) != 2 or not all(isinstance(v, numbers.Integral) and v > 0 for v in pair):
        raise ValueError("%s is %r; wanted a positive integer or two" % (name, value))
    return [int(v) for v in pair]
