"""Pyramid Scene Parsing Network (Zhao et al., CVPR 2017) on a dilated ResNet.

    x         stage 4 of the backbone, [N, h, w, C] with h = (H-1)/8 + 1, or H/8 without align corners
    pyramid   for b in 1, 2, 3, 6: average x over b x b windows → 1x1 → norm → ReLU → resized to h x w
    head      [x, pyramid...] → 3x3 → norm → ReLU → channel dropout → 1x1 → resized to H x W
    aux       stage 3 → 3x3 → norm → ReLU → channel dropout → 1x1 → resized to H x W, in training only

Channel dropout drops whole feature maps of an example (PyTorch's Dropout2d).

Initial values of pyramid, head and aux are semseg's, that is PyTorch's defaults: kernels and biases uniform
in ±1/sqrt(inputs · k · k). Without a pretrained backbone they serve as well as any.

Variables: the backbone's under `resnet/` (see resnet.py) and, under `pspnet/`, `pyramid/bin{b}/conv/kernel`,
`pyramid/bin{b}/bn/...`, `head/{conv/kernel,bn/...,logits/kernel,logits/bias}` and `aux/...` likewise. **What
is not under `resnet/` is head**: the recipe gives it ten times the learning rate.
"""

import functools

import tensorflow.compat.v1 as tf

import towers
from models import resampling, resnet

BACKBONES = ("resnet50", "resnet101", "thin_resnet")
PYRAMIDS = ("adaptive", "average")
NORMS = ("sync", "plain")


def pspnet(images, model_config, num_classes, norm=None):
    """Logits of every pixel.

    Args:
      images: [N, H, W, 3] float, normalised. H and W may be unknown until the graph runs.
      model_config: has the attributes backbone, stem, width (thin_resnet), pyramid, pyramid_bins,
        pyramid_channels, head_channels, aux_channels, align_corners, dropout, norm, norm_statistics,
        norm_momentum, norm_epsilon, and may have norm_group_size.
      num_classes: C.
      norm: `norm(inputs, name=...)` in place of the configured normalisation, or None.
    Returns:
      dict of 'logits' [N, H, W, C] and 'aux_logits', the same shape; None with aux_channels 0 or where the
      tower is not training. Float32, or float64 for float64 images.
    Raises:
      ValueError: a size that the network cannot take, or an unknown choice in the configuration.
    """
    config = model_config
    _check_choices(config)
    size = _input_size(images, config)
    norm = norm or normalisation(config)
    stages = backbone(images, config, norm)
    with tf.variable_scope("pspnet"):
        with tf.variable_scope("pyramid"):
            x = _pyramid(stages["stage4"], config, norm)
        classify = functools.partial(
            _classifier, size=size, config=config, norm=norm, num_classes=num_classes)
        logits = classify(x, config.head_channels, name="head")
        aux_logits = None
        if config.aux_channels and towers.current_tower().training:
            aux_logits = classify(stages["stage3"], config.aux_channels, name="aux")
    return {"logits": logits, "aux_logits": aux_logits}


def backbone(images, model_config, norm):
    """The stages of the configured backbone: a dict 'stage1' to 'stage4'."""
    if model_config.backbone == "thin_resnet":
        return resnet.thin_resnet(images, norm, model_config.width)
    return resnet.resnet(images, model_config.backbone, norm, model_config.stem)


def normalisation(model_config):
    """The configured batch normalisation, `norm(inputs, name=...)`: over all towers, groups of them, or each its own."""
    options = dict(momentum=model_config.norm_momentum, epsilon=model_config.norm_epsilon)
    if model_config.norm == "sync":
        return functools.partial(towers.sync_bn, statistics=model_config.norm_statistics,
                                 group_size=getattr(model_config, "norm_group_size", None), **options)
    return functools.partial(towers.layers.batch_normalization, sync=False, **options)


def check_input_size(height, width, align_corners=True, pyramid="adaptive", pyramid_bins=(1, 2, 3, 6)):
    """Refuses a crop that the network cannot take, naming the nearest that it can.

    With align corners, features and logits coincide at the corners only where (size-1) % 8 == 0; without,
    size % 8 == 0. The 'average' pyramid also wants size/8 to be a multiple of every bin.
    Raises:
      ValueError.
    """
    step, offset = 8, 1 if align_corners else 0
    if pyramid == "average":
        def fits(size):
            return size > 8 and (size - offset) % 8 == 0 and all(feature(size) % b == 0 for b in pyramid_bins)

        def feature(size):
            return (size - offset) // 8 + offset
        wanted = "8n{} with a feature map that every bin of {} divides".format(
            "+1" if offset else "", tuple(pyramid_bins))
    else:
        def fits(size):
            return size >= step + offset and (size - offset) % 8 == 0
        wanted = "8n+1 (align corners)" if align_corners else "a multiple of 8 (no align corners)"
    for name, size in (("height", height), ("width", width)):
        if not fits(size):
            raise ValueError("input {} {} does not fit the network, which wants {}: nearest are {}".format(
                name, size, wanted, " and ".join(map(str, _nearest(size, fits)))))


def fitting_size(size, align_corners=True, pyramid="adaptive", pyramid_bins=(1, 2, 3, 6)):
    """The smallest height (or width) from `size` up that `check_input_size` lets pass."""
    while True:
        try:
            check_input_size(size, size, align_corners, pyramid, pyramid_bins)
            return size
        except ValueError:
            size += 1


def _pyramid(x, config, norm):
    height, width = tf.shape(x)[1], tf.shape(x)[2]
    height, width = x.shape.as_list()[1] or height, x.shape.as_list()[2] or width
    branches = [x]
    for b, pooled in zip(config.pyramid_bins, resampling.adaptive_average_pool(x, config.pyramid_bins)):
        with tf.variable_scope("bin%d" % b):
            y = resnet.conv2d(pooled, config.pyramid_channels, 1, "conv", initializer=_uniform_fan_in())
            y = tf.nn.relu(norm(y, name="bn"))
            branches.append(resampling.resize_bilinear(y, (height, width), config.align_corners))
    return tf.concat(branches, axis=-1)


def _classifier(x, channels, name, size, config, norm, num_classes):
    with tf.variable_scope(name):
        x = resnet.conv2d(x, channels, 3, "conv", initializer=_uniform_fan_in())
        x = tf.nn.relu(norm(x, name="bn"))
        x = towers.layers.dropout(x, config.dropout, noise_shape=(None, 1, 1, None))
        bound = channels ** -.5
        x = towers.layers.conv2d(x, num_classes, 1, kernel_initializer=_uniform_fan_in(),
                                 bias_initializer=tf.random_uniform_initializer(-bound, bound), name="logits")
        if x.dtype != tf.float64:
            x = tf.cast(x, tf.float32)
        return resampling.resize_bilinear(x, size, config.align_corners)


def _uniform_fan_in():
    return tf.variance_scaling_initializer(1 / 3, mode="fan_in", distribution="uniform")


def _input_size(images, config):
    """(H, W) as ints, or as a tensor that fails in the graph where the size is unknown and does not fit."""
    height, width = images.shape.as_list()[1:3]
    if height is not None and width is not None:
        check_input_size(height, width, config.align_corners, config.pyramid, config.pyramid_bins)
        return height, width
    if config.pyramid == "average":
        raise ValueError("the 'average' pyramid wants images of known height and width, these are {}".format(
            images.shape.as_list()))
    size = tf.shape(images)[1:3]
    fits = tf.equal(size % 8, 1 if config.align_corners else 0)
    wanted = "8n+1" if config.align_corners else "multiples of 8"
    message = ["input height and width must be", wanted, "but are", size]
    with tf.control_dependencies([tf.Assert(tf.reduce_all(fits), message)]):
        size = tf.identity(size)
    return size[0], size[1]


def _nearest(size, fits):
    below = next((s for s in range(size, 0, -1) if fits(s)), None)
    above = next(s for s in range(max(size, 1), size + 100000) if fits(s))
    return [s for s in (below, above) if s is not None]


def _check_choices(config):
    for name, choices in (("backbone", BACKBONES), ("pyramid", PYRAMIDS), ("norm", NORMS)):
        value = getattr(config, name)
        if value not in choices:
            raise ValueError("model.{} {!r} is unknown: use one of {}".format(
                name, value, ", ".join(map(repr, choices))))
