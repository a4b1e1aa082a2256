"""What both sides of the golden files draw for themselves: weights, images, and which values are kept. NumPy alone."""

import zlib

import numpy as np


def rng(name):
    return np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)


def weight(name, shape):
    """A value for a PyTorch parameter or buffer, of a size that keeps activations near 1; float64 that float32 can hold."""
    draw, kind = rng(name), name.rsplit(".", 1)[-1]
    if len(shape) == 4:
        value = draw.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
    elif kind == "running_var" or (kind == "weight" and len(shape) == 1):
        value = draw.uniform(.5, 1.5, shape)
    else:
        value = draw.standard_normal(shape) * .3
    return value.astype(np.float32).astype(np.float64)


def rgb(size, count=1):
    """Images [count, H, W, 3] of whole numbers from 0 to 255, smooth with noise."""
    draw = rng("rgb {} {}".format(size, count))
    y, x = np.mgrid[:size[0], :size[1]]
    phase = draw.uniform(0, 6, (count, 1, 1, 3))
    waves = np.sin(x[None, :, :, None] / 7. + phase) * np.cos(y[None, :, :, None] / 5. + phase)
    return np.clip(np.round(128 + 90 * waves + 20 * draw.standard_normal(waves.shape)), 0, 255)


def signs(name, shape):
    return rng("signs " + name).randint(0, 2, shape) * 2. - 1


def digest(name, values, count=48):
    """(a sample of `count` values as float32, two signed sums in float64 that no value escapes)."""
    flat = np.asarray(values, np.float64).ravel()
    kept = flat[rng("sample " + name).randint(0, flat.size, count)]
    return kept.astype(np.float32), signs(name, (2, flat.size)).dot(flat)
