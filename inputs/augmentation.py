"""The recipe's augmentation, stateless, computed only where the crop needs it.

In order, as semseg does it (github.com/hszhao/semseg, tool/train.py and util/transform.py):

    scale s ~ U(0.5, 2) -> rotate a ~ U(-10, 10) degrees, p .5 -> 5x5 Gaussian blur, p .5 -> mirror, p .5
        -> random crop, padded with the mean -> (x - mean) / std

Each operation is a pure function of an image and the drawn numbers. Full-size intermediates would be wasteful
(a scale of 2 makes 4096x2048 of a Cityscapes image, of which a 713 crop keeps 6 %), so the crop is drawn
first and every operation works on a *window* `[top, left, height, width]` of the frame that it would produce;
`rotation_source` and `blur_source` say which window of the frame before it that takes. The result equals that
of whole frames (`tests/inputs/test_augmentation.py`).

Conventions, equal to OpenCV's: pixel centres at half-integers for scaling (cv2.resize with a size;
INTER_LINEAR for images, INTER_NEAREST_EXACT for labels), rotation of pixel indices about (W/2, H/2),
cv2.GaussianBlur(image, (5, 5), 0) with its binomial kernel [1 4 6 4 1]/16 and reflected border. One departure
from semseg, which scales labels by INTER_NEAREST: that takes floor(x / s), half a pixel away from where its
INTER_LINEAR looks, and so moves labels against their image.
"""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

from inputs import labels

_KERNEL = np.array([1, 4, 6, 4, 1], np.float32) / 16
_MARGIN = 2

Params = collections.namedtuple(
    "Params",
    "crop_size scale_range rotate_degrees rotate_probability blur_probability flip_probability mean std",
)
Params.__doc__ = """What is drawn from, as in a configuration's `input`.

crop_size (height, width), scale_range (low, high), rotate_degrees (at most, either way), three probabilities,
and mean and std (r, g, b) on the scale 0..255.
"""


def check_params(params):
    """Raises ValueError, in one line, for values that cannot be meant."""

    def require(good, name, wanted):
        if not good:
            raise ValueError("input.%s is %s, but must be %s" % (name, getattr(params, name), wanted))

    size, scale = params.crop_size, params.scale_range
    require(
        len(size) == 2 and all(int(v) == v and v > 0 for v in size),
        "crop_size",
        "(height, width), two positive integers",
    )
    require(len(scale) == 2 and 0 < scale[0] <= scale[1], "scale_range", "(low, high) with 0 < low <= high")
    require(0 <= params.rotate_degrees <= 180, "rotate_degrees", "between 0 and 180")
    for name in ("rotate_probability", "blur_probability", "flip_probability"):
        require(0 <= getattr(params, name) <= 1, name, "a probability, 0 to 1")
    require(len(params.mean) == 3, "mean", "three numbers, RGB on the scale 0..255")
    require(
        len(params.std) == 3 and min(params.std) > 0, "std", "three positive numbers, RGB on the scale 0..255"
    )


def fold(key, number):
    """An independent key [2] int64 for each small `number`: the key is hashed first, so that neighbouring
    keys do not meet.
    """
    hashed = tf.random.stateless_uniform([2], seed=key, minval=None, maxval=None, dtype=tf.int64)
    return hashed + tf.stack([tf.zeros([], tf.int64), tf.cast(number, tf.int64)])


def draw_parameters(key, params):
    """Draws an example's augmentation: a dict of scalars.

    scale, degrees (positive turns counter-clockwise), rotate, blur, flip (bools), and crop_y, crop_x in [0,
    1): where the crop lies between the first and the last place it can have. Equal keys give equal draws,
    whatever the image.
    """

    def uniform(number, low=0.0, high=1.0):
        return low + (high - low) * tf.random.stateless_uniform([], seed=fold(key, number))

    return {
        "scale": uniform(0, *params.scale_range),
        "rotate": uniform(1) < params.rotate_probability,
        "degrees": uniform(2, -params.rotate_degrees, params.rotate_degrees),
        "blur": uniform(3) < params.blur_probability,
        "flip": uniform(4) < params.flip_probability,
        "crop_y": uniform(5),
        "crop_x": uniform(6),
    }


def augment(image, label, key, params, ignore_label=labels.IGNORE):
    """One training example: draws its parameters and applies them.

    Args:
      image: [H, W, 3] uint8 or float32, 0..255.
      label: [H, W] int32.
      key: [2] int32 or int64, this example's own; see `inputs.pipeline`.
      params: `Params`.

    Returns:
      ([h, w, 3] float32 normalised, [h, w] int32) of the crop's size. A label value that `label` does not
      have never appears, but for `ignore_label` outside the image.
    """
    return apply_parameters(image, label, draw_parameters(key, params), params, ignore_label)


def apply_parameters(image, label, drawn, params, ignore_label=labels.IGNORE):
    """`augment` with given parameters, a dict as from `draw_parameters`."""
    frame = scaled_size(tf.shape(label), drawn["scale"])
    window, padding = crop_window(frame, params.crop_size, drawn["crop_y"], drawn["crop_x"])
    window = tf.where(drawn["flip"], mirrored(frame, window), window)
    wide = blur_source(frame, window)

    def rotated():
        source = rotation_source(frame, drawn["degrees"], wide)
        parts = scale(image, label, frame, source)
        return rotate(*parts, frame, drawn["degrees"], source, wide, params.mean, ignore_label)

    image, label = tf.cond(drawn["rotate"], rotated, lambda: scale(image, label, frame, wide))
    label = part(label, wide, window)
    image = tf.cond(
        drawn["blur"], lambda: blur(image, frame, wide, window), lambda: part(image, wide, window)
    )
    image, label = tf.cond(drawn["flip"], lambda: flip(image, label), lambda: (image, label))
    image, label = pad(normalise(image, params.mean, params.std), label, padding, ignore_label)
    image.set_shape(tuple(params.crop_size) + (3,))
    label.set_shape(params.crop_size)
    return image, label


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
    image = tf.raw_ops.ScaleAndTranslate(
        images=image[tf.newaxis],
        size=window[2:],
        scale=tf.cast(frame, tf.float32) / tf.cast(size, tf.float32),
        translation=-tf.cast(window[:2], tf.float32),
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


def rotate(image, label, frame, degrees, source, window, mean, ignore_label=labels.IGNORE):
    """Rotates a frame about its centre, counter-clockwise, and returns the part in `window`.

    Args:
      image: [h, w, 3] float32, `label`: [h, w] int32; both cover the window `source` (see `rotation_source`).
      mean: what the image is filled with from outside the frame; the label with `ignore_label`.
    """
    c, s, u, v = _turn(frame, degrees)
    (top, left), (source_top, source_left) = (
        tf.unstack(tf.cast(w[:2], tf.float32)) for w in (window, source)
    )
    zero = tf.zeros([])
    transform = tf.stack(
        [c, -s, c * left - s * top + u - source_left, s, c, s * left + c * top + v - source_top, zero, zero]
    )

    def warp(pixels, interpolation, fill):
        return tf.raw_ops.ImageProjectiveTransformV3(
            images=pixels[tf.newaxis],
            transforms=transform[tf.newaxis],
            output_shape=window[2:],
            fill_value=fill,
            interpolation=interpolation,
            fill_mode="CONSTANT",
        )[0]

    mean = tf.constant(mean, tf.float32)  # the operation has one fill value for all channels: make it zero
    image = warp(image - mean, "BILINEAR", 0.0) + mean
    return image, warp(label[:, :, tf.newaxis], "NEAREST", float(ignore_label))[:, :, 0]


def blur_source(frame, window):
    """The window grown by the reach of the blur, within the frame."""
    low = tf.maximum(window[:2] - _MARGIN, 0)
    return tf.concat([low, tf.minimum(window[:2] + window[2:] + _MARGIN, frame) - low], axis=0)


def blur(image, frame, source, window):
    """cv2.GaussianBlur(frame, (5, 5), 0) in `window`, from the image [h, w, 3] float32 that covers
    `source`.
    """
    for axis in (0, 1):
        places = window[axis] - _MARGIN + tf.range(window[axis + 2] + 2 * _MARGIN)
        last = frame[axis] - 1
        places = tf.math.floormod(
            places, tf.maximum(2 * last, 1)
        )  # reflected about the border pixels' centres
        places = tf.minimum(places, 2 * last - places)
        reach = tf.gather(image, places - source[axis], axis=axis)
        count = window[axis + 2]
        shifted = [reach[k : k + count] if axis == 0 else reach[:, k : k + count] for k in range(5)]
        image = tf.add_n([weight * pixels for weight, pixels in zip(_KERNEL, shifted)])
    return image


def flip(image, label):
    """Mirrors both left to right."""
    return image[:, ::-1], label[:, ::-1]


def pad(image, label, padding, ignore_label=labels.IGNORE):
    """Pads a normalised image [h, w, 3] with 0, which is the mean, and its label with `ignore_label`."""
    image = tf.pad(image, tf.concat([padding, tf.zeros([1, 2], tf.int32)], axis=0))
    return image, tf.pad(label, padding, constant_values=ignore_label)


def normalise(image, mean, std):
    """(image - mean) / std, in float32; `mean` and `std` have a number a channel."""
    return (tf.cast(image, tf.float32) - tf.constant(mean, tf.float32)) * (1 / tf.constant(std, tf.float32))
