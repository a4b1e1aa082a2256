"""Image operations on windows: scaling, rotation, blur, mirroring, cropping, padding, normalising.

Each is a pure function. A *frame* is a size [height, width] (int32) that an operation's whole result would
have, a *window* a part of it, `[top, left, height, width]` (int32), and an operation computes no more than a
window. `rotation_source` and `blur_source` say which window of the frame before it that takes.

Conventions, equal to OpenCV's: pixel centres at half-integers for scaling (cv2.resize to a size; INTER_LINEAR
for images, INTER_NEAREST_EXACT for labels), rotation of pixel indices about (W/2, H/2) as by
getRotationMatrix2D and warpAffine, GaussianBlur(image, (5, 5), 0) with its binomial kernel [1 4 6 4 1]/16 and
reflected border. One departure from semseg, which scales labels by INTER_NEAREST: that takes floor(x / s),
half a pixel away from where its INTER_LINEAR looks, and so moves labels against their image.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from inputs.labels import IGNORE

_KERNEL = np.array([1, 4, 6, 4, 1], np.float32) / 16
_MARGIN = 2


def whole(frame):
    """The window that is all of a frame of size [2]: int32 [0, 0, height, width]."""
    return tf.concat([tf.zeros([2], tf.int32), frame], axis=0)


def scaled_size(size, factor):
    """[height, width] int32 after scaling by `factor`: rounded as cv2.resize does, at least one pixel."""
    return tf.maximum(tf.cast(tf.round(tf.cast(size, tf.float32) * factor), tf.int32), 1)


def crop_window(frame, crop_size, crop_y, crop_x):
    """Where a crop lies in a frame, and how the part inside is padded to `crop_size`, symmetrically (the odd
    pixel after).

    Args:
      frame: [2] int32, height and width.
      crop_size: (height, width).
      crop_y, crop_x: in [0, 1): the fraction of the possible places above and left of the crop.

    Returns:
      (window [4] int32 within the frame, padding [2, 2] int32 of ((top, bottom), (left, right))).
    """
    crop = tf.constant(crop_size, tf.int32)
    slack = tf.maximum(frame - crop, 0)
    start = tf.cast(tf.stack([crop_y, crop_x]) * tf.cast(slack + 1, tf.float32), tf.int32)
    size = tf.minimum(frame, crop)
    before = (crop - size) // 2
    # The product may round up to slack + 1.
    return tf.concat([tf.minimum(start, slack), size], axis=0), tf.stack(
        [before, crop - size - before], axis=1
    )


def mirrored(frame, window):
    """The window that shows, mirrored, what `window` shows of the mirrored frame."""
    top, left, height, width = tf.unstack(window)
    return tf.stack([top, frame[1] - left - width, height, width])


def part(pixels, outer, inner):
    """What `inner` shows of pixels [h, w, ...] that cover `outer`; both windows of one frame, the inner
    within the outer.
    """
    top, left = inner[0] - outer[0], inner[1] - outer[1]
    return pixels[top : top + inner[2], left : left + inner[3]]


def scale(image, label, frame, window=None):
    """Scales to a frame of size [2] and returns the part in `window` (all of it by default).

    Args:
      image: [H, W, 3] uint8 or float32; interpolated linearly to float32.
      label: [H, W] integers; each pixel takes the value of the pixel that its centre falls into.
    """
    window = whole(frame) if window is None else window
    size = tf.shape(label)
    factor = tf.cast(frame, tf.float32) / tf.cast(size, tf.float32)
    # Of the image only what the window shows, and two pixels around it: the operation works through whole rows.
    start, count = tf.cast(window[:2], tf.float32), tf.cast(window[2:], tf.float32)
    low = tf.clip_by_value(tf.cast(tf.floor(start / factor), tf.int32) - 2, 0, size - 1)
    high = tf.clip_by_value(tf.cast(tf.ceil((start + count) / factor), tf.int32) + 2, low + 1, size)
    image = tf.raw_ops.ScaleAndTranslate(
        images=tf.convert_to_tensor(image)[low[0] : high[0], low[1] : high[1]][tf.newaxis],
        size=window[2:],
        scale=factor,
        translation=tf.cast(low, tf.float32) * factor - start,
        kernel_type="triangle",
        antialias=False,
    )[0]

    def nearest(axis):
        places = window[axis] + tf.range(window[axis + 2])
        return ((2 * places + 1) * size[axis]) // (2 * frame[axis])

    return image, tf.gather(tf.gather(label, nearest(0)), nearest(1), axis=1)


def _turn(frame, degrees):
    """Where a rotated frame's pixel (x, y) comes from: x' = c x - s y + u, y' = s x + c y + v; returns (c,
    s, u, v).
    """
    angle = degrees * (np.pi / 180)
    c, s = tf.cos(angle), tf.sin(angle)
    center_y, center_x = tf.unstack(tf.cast(frame, tf.float32) / 2)
    return c, s, center_x - c * center_x + s * center_y, center_y - s * center_x - c * center_y


def rotation_source(frame, degrees, window):
    """The smallest window of a frame that holds every pixel needed to fill `window` of the rotated frame;
    never empty.
    """
    c, s, u, v = _turn(frame, degrees)
    top, left, height, width = tf.unstack(tf.cast(window, tf.float32))
    y = tf.stack([top, top, top + height - 1, top + height - 1])
    x = tf.stack([left, left + width - 1, left, left + width - 1])
    corners = tf.stack([s * x + c * y + v, c * x - s * y + u])
    low = tf.cast(tf.floor(tf.reduce_min(corners, axis=1)), tf.int32) - 1
    high = tf.cast(tf.ceil(tf.reduce_max(corners, axis=1)), tf.int32) + 2
    low = tf.clip_by_value(low, 0, frame - 1)
    return tf.concat([low, tf.clip_by_value(high, low + 1, frame) - low], axis=0)


def rotate(image, label, frame, degrees, source, window, fill=0.0, ignore_label=IGNORE):
    """Rotates a frame about its centre, counter-clockwise, and returns the part in `window`.

    Args:
      image: [h, w, 3] float32, `label`: [h, w] int32; both cover the window `source` (see `rotation_source`).
      fill: the one number that the image is filled with from outside the frame; the label with `ignore_label`.
    """
    c, s, u, v = _turn(frame, degrees)
    (top, left), (source_top, source_left) = (
        tf.unstack(tf.cast(w[:2], tf.float32)) for w in (window, source)
    )
    zero = tf.zeros([])
    transform = tf.stack(
        [c, -s, c * left - s * top + u - source_left, s, c, s * left + c * top + v - source_top, zero, zero]
    )

    def warp(pixels, interpolation, outside):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=pixels[tf.newaxis],
            transforms=transform[tf.newaxis],
            output_shape=window[2:],
            fill_value=outside,
            interpolation=interpolation,
            fill_mode="CONSTANT",
        )[0]

    return warp(image, "BILINEAR", fill), warp(label[:, :, tf.newaxis], "NEAREST", float(ignore_label))[:, :, 0]


def blur_source(frame, window):
    """The window grown by the reach of the blur, within the frame."""
    low = tf.maximum(window[:2] - _MARGIN, 0)
    return tf.concat([low, tf.minimum(window[:2] + window[2:] + _MARGIN, frame) - low], axis=0)


def blur(image, frame, source, window):
    """cv2.GaussianBlur(frame, (5, 5), 0) in `window`, from the image [h, w, 3] float32 that covers
    `source`.
    """

    def reflected():
        pixels = image
        for axis in (0, 1):
            places = window[axis] - _MARGIN + tf.range(window[axis + 2] + 2 * _MARGIN)
            last = frame[axis] - 1
            # Reflected about the border pixels' centres.
            places = tf.math.floormod(places, tf.maximum(2 * last, 1))
            places = tf.minimum(places, 2 * last - places)
            pixels = tf.gather(pixels, places - source[axis], axis=axis)
        return pixels

    inside = tf.reduce_all(tf.equal(source[2:], window[2:] + 2 * _MARGIN))  # then the source is all that is needed
    pixels = tf.cond(inside, lambda: tf.identity(image), reflected)[tf.newaxis]
    for shape in ((5, 1, 1, 1), (1, 5, 1, 1)):
        kernel = np.tile(_KERNEL.reshape(shape), (1, 1, 3, 1))
        pixels = tf.nn.depthwise_conv2d(pixels, tf.constant(kernel), [1, 1, 1, 1], "VALID")
    return pixels[0]


def flip(image, label):
    """Mirrors both left to right."""
    return tf.reverse(image, [1]), tf.reverse(label, [1])


def pad(image, label, padding, ignore_label=IGNORE):
    """Pads a normalised image [h, w, 3] with 0, which is the mean, and its label with `ignore_label`."""
    image = tf.pad(image, tf.concat([padding, tf.zeros([1, 2], tf.int32)], axis=0))
    return image, tf.pad(label, padding, constant_values=ignore_label)


def normalise(image, mean, std):
    """(image - mean) / std, in float32, of an image [..., w, 3]; `mean` and `std` have a number a channel."""
    image = tf.cast(image, tf.float32)
    shape = tf.shape(image)
    # By rows: arithmetic on a last axis of three is slow.
    repeats = shape[-2:-1]
    rows = tf.reshape(image, tf.concat([shape[:-2], [3 * shape[-2]]], axis=0))
    rows = (rows - tf.tile(tf.constant(mean, tf.float32), repeats)) * tf.tile(1 / tf.constant(std, tf.float32), repeats)
    rows = tf.reshape(rows, shape)
    rows.set_shape(image.shape)
    return rows
