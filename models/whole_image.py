"""Prediction of whole images in one pass, as a graph from raw images to labels: what is exported.

For a batch of images [N, H, W, 3] of one size:

    1. resize as for the sliding windows of `inference`: to a long side of round(resize · L), L the images' own or given
    2. normalise, then pad to a size that the network takes: half before (rounded down), the rest after, with the mean
    3. softmax of the network, without the padding, resized to H x W

which is the sliding-window prediction with one window over the whole image, one scale and no flip. H and W may be
unknown until the graph runs; nothing but their being known then makes shapes in the graph, and speed, differ.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from models import inference


def predict(network_fn, images, mean, std, fit, resize=1., long_side=None):
    """Labels and probabilities of whole images.

    Args:
      network_fn: function of normalised images [N, h, w, 3] float32 to logits [N, h, w, C].
      images: [N, H, W, 3] uint8, or float 0..255; RGB.
      mean, std: 3 numbers each, in units of 0..255.
      fit: function from a size (an int, or a scalar tensor where H and W are unknown) to the size that the network is
        given, not smaller; see `multiple`.
      resize: the factor of a network trained on images scaled by it.
      long_side: L, pixels; None for the images' own.
    Returns:
      dict of 'labels' [N, H, W] int32 and 'probabilities' [N, H, W, C] float32.
    """
    known = images.shape.as_list()[1:3]
    dynamic = tf.shape(images)
    static = None not in known
    height, width = known if static else (dynamic[1], dynamic[2])
    x = tf.cast(images, tf.float32)
    h, w = height, width
    resized = resize != 1 or long_side is not None
    if resized:
        if static:
            h, w = inference.scaled_size(height, width, resize, long_side)
        else:
            h, w = _scaled_size(height, width, resize, long_side)
        x = tf.image.resize_bilinear(x, tf.stack([h, w]), half_pixel_centers=True)
    x = (x - tf.constant(mean, tf.float32)) / tf.constant(std, tf.float32)
    new = [fit(h), fit(w)]
    before = [(n - size) // 2 for n, size in zip(new, (h, w))]
    after = [n - size - b for n, size, b in zip(new, (h, w), before)]
    if not static or any(before + after):
        x = tf.pad(x, tf.stack([[0, 0], [before[0], after[0]], [before[1], after[1]], [0, 0]]))
    x.set_shape([None] + (new if static else [None, None]) + [3])
    logits = tf.cast(network_fn(x), tf.float32)
    probabilities = tf.nn.softmax(logits)[:, before[0]:before[0] + h, before[1]:before[1] + w]
    if resized:
        probabilities = tf.image.resize_bilinear(probabilities, tf.stack([height, width]), half_pixel_centers=True)
    probabilities.set_shape([images.shape.as_list()[0]] + known + [logits.shape.as_list()[3]])
    return {"labels": tf.argmax(probabilities, axis=-1, output_type=tf.int32), "probabilities": probabilities}


def multiple(step, offset):
    """A `fit` of `predict`: the smallest step · n + offset, n >= 1, that is not smaller; for ints and for tensors."""
    def fit(size):
        largest = max if isinstance(size, (int, np.integer)) else tf.maximum
        return largest((size - offset + step - 1) // step, 1) * step + offset
    return fit


def _scaled_size(height, width, resize, long_side):
    """`inference.scaled_size` of sizes that are tensors; float64 and half to even, as there."""
    def rounded(value):
        return tf.maximum(tf.cast(tf.round(value), tf.int32), 1)
    h, w = tf.cast(height, tf.float64), tf.cast(width, tf.float64)
    long_size = rounded(resize * (tf.constant(long_side, tf.float64) if long_side else tf.maximum(h, w)))
    long_ = tf.cast(long_size, tf.float64)
    tall = height > width
    return (tf.where_v2(tall, long_size, rounded(long_ / w * h)), tf.where_v2(tall, rounded(long_ / h * w), long_size))
