"""Dilated residual networks, with features at 1/8 of the size: ResNet-50/101 and a thin one.

A unit adds to its input (through a 1x1 `shortcut` where the shape changes) and ends in a ReLU:

    bottleneck   1x1 w → 3x3 w (stride and dilation here) → 1x1 4w         resnet50, resnet101
    basic        3x3 w (stride, dilation) → 3x3 w (dilation)                thin_resnet

Stages 1 to 4 have dilations 1, 1, 2, 4 in every 3x3 convolution and strides 1, 2, 1, 1 in their first unit;
the stem before them has stride 4. Padding is symmetric everywhere, k//2 pixels times the dilation, as in
PyTorch: TensorFlow's 'same' puts one pixel less before than after where a stride meets an even size, so
strided layers pad by themselves. An input of 8n+1 gives features of n+1, an input of 8n features of n.

Initial values are those of torchvision and semseg: kernels normal with variance 2/(k·k·outputs) (Kaiming, fan
out), γ 1, β 0. Convolutions have no bias.

Variables, all under `resnet/`: `stem/conv{1,2,3}/kernel`, `stem/bn{1,2,3}/{gamma,beta,moving_mean,...}` and
`stage{1-4}/unit{1..}/{conv1,conv2,conv3,shortcut}/kernel`, `.../{bn1,bn2,bn3,shortcut_bn}/...`.
"""

import tensorflow.compat.v1 as tf

import towers

UNITS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}
STEMS = ("deep", "7x7")
STRIDES = (1, 2, 1, 1)
DILATIONS = (1, 1, 2, 4)


def resnet(images, units, norm, stem="deep", width=64):
    """A dilated ResNet of bottleneck units.

    Args:
      images: [N, H, W, 3] float.
      units: units in each of the four stages, or a name in `UNITS`.
      norm: `norm(inputs, name=...)`, the normalisation after each convolution.
      stem: 'deep', 3x3/2 w → 3x3 w → 3x3 2w, or '7x7', 7x7/2 w; then a 3x3/2 max pool.
      width: w of the stem and of stage 1; it doubles with every stage.
    Returns:
      dict of 'stage1' [N, H/4, W/4, 4w], 'stage2' [N, H/8, W/8, 8w], 'stage3' [N, H/8, W/8, 16w] and 'stage4'
      [N, H/8, W/8, 32w].
    Raises:
      ValueError: unknown name or stem.
    """
    units = _units_of(units)
    if stem not in STEMS:
        raise ValueError("stem {!r} is unknown: use one of {}".format(stem, ", ".join(map(repr, STEMS))))
    with tf.variable_scope("resnet"):
        with tf.variable_scope("stem"):
            if stem == "deep":
                x = _conv_norm_relu(images, width, 3, norm, 1, strides=2)
                x = _conv_norm_relu(x, width, 3, norm, 2)
                x = _conv_norm_relu(x, 2 * width, 3, norm, 3)
            else:
                x = _conv_norm_relu(images, width, 7, norm, 1, strides=2)
            x = _max_pool(x)
        return _stages(x, _bottleneck, units, [width * 2 ** k for k in range(4)], norm)


def thin_resnet(images, norm, width=16, units=(1, 1, 1, 1)):
    """A dilated ResNet of basic units that trains in minutes on two CPU cores.

    Its stem is 3x3/2 w → 3x3/2 2w, without a pool, so that no layer works at half size but the first. One unit a
    stage: at the same CPU time, 750 steps of it on half-size CamVid (batch 4, width 16, two seeds) reached mIoU
    0.420 and 0.430, 500 steps of units (1, 2, 2, 2) 0.416 and 0.410; on four towers its step costs 0.23 s of CPU
    against 0.38.

    Args:
      images: [N, H, W, 3] float.
      norm: `norm(inputs, name=...)`.
      width: w, the channels of the first convolution; stages have 2w, 4w, 8w, 8w.
      units: units in each of the four stages.
    Returns:
      dict of 'stage1' [N, H/4, W/4, 2w], 'stage2' [N, H/8, W/8, 4w], 'stage3' and 'stage4' [N, H/8, W/8, 8w].
    """
    with tf.variable_scope("resnet"):
        with tf.variable_scope("stem"):
            x = _conv_norm_relu(images, width, 3, norm, 1, strides=2)
            x = _conv_norm_relu(x, 2 * width, 3, norm, 2, strides=2)
        return _stages(x, _basic, units, [2 * width, 4 * width, 8 * width, 8 * width], norm)


def conv2d(inputs, filters, size, name, strides=1, dilation=1, initializer=None):
    """Convolution without bias, padded symmetrically by size//2 · dilation, like PyTorch's at any size."""
    padding = "same"
    if strides > 1 and size > 1:
        inputs, padding = _pad(inputs, size // 2), "valid"
    if initializer is None:
        initializer = tf.variance_scaling_initializer(2., mode="fan_out", distribution="untruncated_normal")
    return towers.layers.conv2d(
        inputs, filters, size, strides=strides, padding=padding, dilation_rate=dilation, use_bias=False,
        kernel_initializer=initializer, name=name)


def _stages(x, unit, units, widths, norm):
    stages = {}
    plan = zip(units, widths, STRIDES, DILATIONS)
    for number, (count, width, stride, dilation) in enumerate(plan, start=1):
        with tf.variable_scope("stage%d" % number):
            for k in range(count):
                with tf.variable_scope("unit%d" % (k + 1)):
                    x = unit(x, width, stride if k == 0 else 1, dilation, norm)
        stages["stage%d" % number] = x
    return stages


def _bottleneck(x, width, stride, dilation, norm):
    y = _conv_norm_relu(x, width, 1, norm, 1)
    y = _conv_norm_relu(y, width, 3, norm, 2, strides=stride, dilation=dilation)
    y = norm(conv2d(y, 4 * width, 1, "conv3"), name="bn3")
    return tf.nn.relu(y + _shortcut(x, 4 * width, stride, norm))


def _basic(x, width, stride, dilation, norm):
    y = _conv_norm_relu(x, width, 3, norm, 1, strides=stride, dilation=dilation)
    y = norm(conv2d(y, width, 3, "conv2", dilation=dilation), name="bn2")
    return tf.nn.relu(y + _shortcut(x, width, stride, norm))


def _shortcut(x, channels, stride, norm):
    if stride == 1 and x.shape.as_list()[-1] == channels:
        return x
    return norm(conv2d(x, channels, 1, "shortcut", strides=stride), name="shortcut_bn")


def _conv_norm_relu(x, filters, size, norm, number, strides=1, dilation=1):
    x = conv2d(x, filters, size, "conv%d" % number, strides, dilation)
    return tf.nn.relu(norm(x, name="bn%d" % number))


def _max_pool(x):
    # Zeros pad as minus infinity would: the input comes out of a ReLU.
    return towers.layers.max_pooling2d(_pad(x, 1), 3, 2, padding="valid")


def _pad(x, pixels):
    return tf.pad(x, [[0, 0], [pixels, pixels], [pixels, pixels], [0, 0]])


def _units_of(units):
    if not isinstance(units, str):
        return tuple(units)
    if units not in UNITS:
        raise ValueError("backbone {!r} is unknown: use one of {}".format(
            units, ", ".join(map(repr, sorted(UNITS)))))
    return UNITS[units]
