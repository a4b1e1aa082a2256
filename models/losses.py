"""Cross-entropy over pixels, with its several means.

With l_p the cross-entropy of pixel p, w_p its class's weight, and V the pixels that are not ignored:

    tower         L = sum_{p in V} w_p·l_p / sum_{p in V} w_p, as torch.nn.CrossEntropyLoss(weight=w)
    global        the same sums taken over the whole batch, through `towers.weighted_mean`
    hard pixels   V is replaced by the ceil(fraction·|V|) of its pixels with the greatest l_p, in each tower

Where V is empty the loss is 0 and so is its gradient. Logits are taken to float32 before the softmax.
"""

import tensorflow.compat.v1 as tf

import towers

MEANS = ("tower", "global")


def pspnet_loss(outputs, labels, loss_config, ignore_label=255):
    """Loss of a PSPNet: main + aux_weight · auxiliary.

    Args:
      outputs: dict of `pspnet`: 'logits' and 'aux_logits' ([N, H, W, C], or None without an auxiliary head).
      labels: [N, H, W] integers.
      loss_config: has the attributes mean, aux_weight, class_weights, hard_pixel_fraction.
    Returns:
      dict of float scalars 'loss', 'main_loss' and, with an auxiliary head, 'aux_loss'.
    """
    options = dict(ignore_label=ignore_label, mean=loss_config.mean, class_weights=loss_config.class_weights,
                   hard_pixel_fraction=loss_config.hard_pixel_fraction)
    with tf.name_scope("main_loss"):
        main_loss = segmentation_loss(outputs["logits"], labels, **options)
    if outputs.get("aux_logits") is None:
        return {"loss": main_loss, "main_loss": main_loss}
    with tf.name_scope("aux_loss"):
        aux_loss = segmentation_loss(outputs["aux_logits"], labels, **options)
    loss = main_loss + loss_config.aux_weight * aux_loss
    return {"loss": loss, "main_loss": main_loss, "aux_loss": aux_loss}


def segmentation_loss(logits, labels, ignore_label=255, mean="tower", class_weights=None,
                      hard_pixel_fraction=None):
    """Mean cross-entropy over the pixels that are not ignored, a float scalar.

    Args:
      logits: [N, H, W, C] (or any [..., C]).
      labels: [N, H, W] integers, `ignore_label` or 0..C-1. Another value fails in TensorFlow's own op (on the
        CPU; on a GPU it gives NaN).
      mean: 'tower', the mean over this tower's pixels; 'global', each tower's share of the mean over the
        pixels of all towers: then the mean of the towers' losses does not depend on how pixels fell to them.
      class_weights: None or C non-negative numbers.
      hard_pixel_fraction: None or a number in (0, 1]: the share of hardest pixels that is kept. Hardest is by
        unweighted cross-entropy, so that a class weight changes how much a pixel counts and not whether.
    Raises:
      ValueError: an argument out of range, or shapes that do not fit.
    """
    _check(logits, labels, mean, class_weights, hard_pixel_fraction)
    num_classes = logits.shape.as_list()[-1]
    if logits.dtype not in (tf.float32, tf.float64):
        logits = tf.cast(logits, tf.float32)
    logits = tf.reshape(logits, [-1, num_classes])
    labels = tf.reshape(tf.cast(labels, tf.int32), [-1])

    valid = tf.not_equal(labels, ignore_label)
    classes = tf.where(valid, labels, tf.zeros_like(labels))
    values = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=classes)
    if class_weights is None:
        weights = tf.cast(valid, values.dtype)
    else:
        weights = tf.gather(tf.constant(class_weights, values.dtype), classes) * tf.cast(valid, values.dtype)
    if hard_pixel_fraction is not None and hard_pixel_fraction < 1:
        values, weights = _hardest(values, weights, valid, hard_pixel_fraction)

    if mean == "global":
        return towers.weighted_mean(values, weights)
    return tf.div_no_nan(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def _hardest(values, weights, valid, fraction):
    """The ceil(fraction·|valid|) valid entries of greatest value, with their weights."""
    count = tf.cast(tf.reduce_sum(tf.cast(valid, tf.int32)), tf.float64)
    # 0.07 · 100 is 7.000000000000001 in float64: the tolerance keeps it at 7.
    keep = tf.cast(tf.ceil(count * fraction - 1e-6), tf.int32)
    hardness = tf.where(valid, values, -tf.ones_like(values))
    _, places = tf.math.top_k(tf.stop_gradient(hardness), keep, sorted=False)
    return tf.gather(values, places), tf.gather(weights, places)


def _check(logits, labels, mean, class_weights, hard_pixel_fraction):
    if mean not in MEANS:
        raise ValueError("loss mean {!r} is unknown: use one of {}".format(mean, ", ".join(map(repr, MEANS))))
    if not labels.shape.is_compatible_with(logits.shape[:-1]):
        raise ValueError("logits {} do not fit labels {}: the loss wants a logit vector a label pixel".format(
            logits.shape.as_list(), labels.shape.as_list()))
    if class_weights is not None:
        num_classes = logits.shape.as_list()[-1]
        if len(class_weights) != num_classes:
            raise ValueError("{} class weights for {} classes: give one a class".format(
                len(class_weights), num_classes))
        if min(class_weights) < 0:
            raise ValueError("class weight {} is negative: weights are 0 or more".format(min(class_weights)))
    if hard_pixel_fraction is not None and not 0 < hard_pixel_fraction <= 1:
        raise ValueError("hard_pixel_fraction {} is not in (0, 1]: give the share of pixels to keep, or "
                         "None".format(hard_pixel_fraction))
