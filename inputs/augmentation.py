"""The recipe's augmentation: what is drawn for an example, stateless, and in which order it is applied.

As semseg does it (github.com/hszhao/semseg, tool/train.py and util/transform.py):

    scale s ~ U(0.5, 2) -> rotate a ~ U(-10, 10) degrees, p .5 -> 5x5 Gaussian blur, p .5 -> mirror, p .5
        -> random crop, padded with the mean -> (x - mean) / std

Normalising comes right after scaling here, which is the same, as all that follows is linear in the pixels, and makes
the mean, with which rotation and padding fill, zero. Whole frames would be wasteful (a scale of 2 makes 4096x2048 of a
Cityscapes image, of which a 713 crop keeps 6 %), so the crop is drawn first and every operation is asked only for the
window that the next one needs; see `inputs.transforms`. The result equals that of whole frames.
"""

import collections

import tensorflow.compat.v1 as tf

from inputs import labels, transforms

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


def augment(image, label, key, params, ignore_label=labels.IGNORE, classes=None):
    """One training example: draws its parameters and applies them.

    Args:
      image: [H, W, 3] uint8 or float32, 0..255.
      label: [H, W] int32; with `classes` any integers.
      key: [2] int32 or int64, this example's own; see `inputs.pipeline`.
      params: `Params`.
      classes: a function from a part of `label` to classes, int32, or None where `label` has classes already: so only
      what is used need be mapped.

    Returns:
      ([h, w, 3] float32 normalised, [h, w] int32) of the crop's size. A label value that `label` does not
      have never appears, but for `ignore_label` outside the image.
    """
    return apply_parameters(image, label, draw_parameters(key, params), params, ignore_label, classes)


def apply_parameters(image, label, drawn, params, ignore_label=labels.IGNORE, classes=None):
    """`augment` with given parameters, a dict as from `draw_parameters`."""
    frame = transforms.scaled_size(tf.shape(label), drawn["scale"])
    window, padding = transforms.crop_window(frame, params.crop_size, drawn["crop_y"], drawn["crop_x"])
    window = tf.where(drawn["flip"], transforms.mirrored(frame, window), window)
    wide = transforms.blur_source(frame, window)

    def scaled(source):
        pixels, values = transforms.scale(image, label, frame, source)
        return transforms.normalise(pixels, params.mean, params.std), classes(values) if classes else values

    def rotated():
        source = transforms.rotation_source(frame, drawn["degrees"], wide)
        parts = scaled(source)
        return transforms.rotate(*parts, frame, drawn["degrees"], source, wide, ignore_label=ignore_label)

    pixels, values = tf.cond(drawn["rotate"], rotated, lambda: scaled(wide))
    values = transforms.part(values, wide, window)
    pixels = tf.cond(
        drawn["blur"],
        lambda: transforms.blur(pixels, frame, wide, window),
        lambda: transforms.part(pixels, wide, window),
    )
    pixels, values = tf.cond(drawn["flip"], lambda: transforms.flip(pixels, values), lambda: (pixels, values))
    pixels, values = transforms.pad(pixels, values, padding, ignore_label)
    pixels.set_shape(tuple(params.crop_size) + (3,))
    values.set_shape(params.crop_size)
    return pixels, values
