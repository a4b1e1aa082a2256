"""Adaptive average pooling and bilinear resizing of [N, H, W, C], both separable and linear.

Either is y = R x Cᵀ for each image and channel, with one small matrix for the rows and one for the columns:

    average   A[i, j] = 1/size_i where floor(i·n/b) <= j < ceil((i+1)·n/b), size_i the width of that window
    bilinear  B[i, j] = max(0, 1 - |s_i - j|), with s_i = i·(n-1)/(m-1) (align corners) or min(i·n/m, n-1)

Matrix products rather than `tf.image.resize_bilinear`: that op gives float32 whatever it is given, and its
gradient on the GPU adds in no fixed order. Measured on two CPU cores, [1, 90, 90, 19] to 713 x 713, forward
with gradient: 31 ms against 26 ms. Sizes may be unknown until the graph runs; the matrices are then built in
the graph.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from towers import versions


def adaptive_average_pool(inputs, bins):
    """Means of `inputs` over bins x bins windows that cover it, for each number in `bins`.

    The windows are those of PyTorch's AdaptiveAvgPool2d: they overlap by one where the size does not divide,
    and equal plain average pooling where it does.

    Args:
      inputs: [N, H, W, C] float tensor.
      bins: sequence of ints; all are computed in one pass over `inputs`.
    Returns:
      A list, for each b of `bins`: [N, b, b, C], in the dtype of `inputs` (float32 inside for half
      precision).
    """
    wide = _at_least_float32(inputs)
    _, height, width, channels = _shape(wide)
    rows = tf.concat([average_matrix(height, b, wide.dtype) for b in bins], axis=0)
    reduced = _map_rows(wide, rows, sum(bins), height, width, channels)
    results = []
    for b, part in zip(bins, tf.split(reduced, list(bins), axis=1)):
        pooled = _map_columns(part, average_matrix(width, b, wide.dtype), b, b, width, channels)
        results.append(tf.cast(pooled, inputs.dtype))
    return results


def resize_bilinear(inputs, size, align_corners=True):
    """`inputs` [N, h, w, C] interpolated to [N, H, W, C], size = (H, W) as ints or scalar tensors.

    With `align_corners` the corner pixels of both grids coincide (the recipe's resize). Without, output pixel
    i reads the input at i·n/m, which is TensorFlow 1's default and is where feature i of a network with
    symmetric padding and stride m/n is centred. Same dtype as `inputs` (float32 inside for half precision).
    """
    wide = _at_least_float32(inputs)
    _, height, width, channels = _shape(wide)
    new_height, new_width = size
    columns = bilinear_matrix(width, new_width, align_corners, wide.dtype)
    rows = bilinear_matrix(height, new_height, align_corners, wide.dtype)
    stretched = _map_columns(wide, columns, new_width, height, width, channels)
    result = _map_rows(stretched, rows, new_height, height, new_width, channels)
    return tf.cast(result, inputs.dtype)


def average_matrix(n, b, dtype=tf.float32):
    """[b, n] matrix of the adaptive averages: n an int (a constant then) or a scalar tensor, b an int."""
    xp, n_ = (np, n) if isinstance(n, int) else (tf, tf.cast(n, tf.int32))
    i = xp.range(b)[:, None] if xp is tf else np.arange(b)[:, None]
    j = xp.range(n_)[None, :] if xp is tf else np.arange(n)[None, :]
    first = i * n_ // b
    last = -(-(i + 1) * n_ // b)
    inside = xp.logical_and(j >= first, j < last)
    if xp is np:
        return tf.constant(inside / (last - first), dtype)
    return tf.cast(inside, dtype) / tf.cast(last - first, dtype)


def bilinear_matrix(n, m, align_corners, dtype=tf.float32):
    """[m, n] matrix that interpolates n samples to m; n and m ints (a constant then) or scalar tensors."""
    if isinstance(n, int) and isinstance(m, int):
        i, j = np.arange(m, dtype=np.float64)[:, None], np.arange(n, dtype=np.float64)[None, :]
        source = i * (n - 1) / max(m - 1, 1) if align_corners else np.minimum(i * n / m, n - 1)
        return tf.constant(np.maximum(0., 1. - np.abs(source - j)), dtype)
    n, m = tf.cast(n, tf.int32), tf.cast(m, tf.int32)
    i, j = tf.cast(tf.range(m), tf.float64)[:, None], tf.cast(tf.range(n), tf.float64)[None, :]
    last, n, m = tf.cast(n - 1, tf.float64), tf.cast(n, tf.float64), tf.cast(m, tf.float64)
    source = i * last / tf.maximum(m - 1., 1.) if align_corners else tf.minimum(i * n / m, last)
    return tf.cast(tf.maximum(tf.constant(0., tf.float64), 1. - tf.abs(source - j)), dtype)


def _map_rows(x, matrix, new_height, height, width, channels):
    flat = tf.reshape(x, [-1, height, width * channels])
    return tf.reshape(_map(matrix, flat), [-1, new_height, width, channels])


def _map_columns(x, matrix, new_width, height, width, channels):
    flat = tf.reshape(x, [-1, width, channels])
    return tf.reshape(_map(matrix, flat), [-1, height, new_width, channels])


def _map(matrix, x):
    """matrix [m, n] times each of x [..., n, c]; the matrix holds no weights, and gets no gradient."""
    with tf.get_default_graph().gradient_override_map({"BatchMatMulV2": "ModelsLinearMap"}):
        return tf.matmul(matrix, x)


def _map_gradient(op, dy):
    return [None, tf.matmul(op.inputs[0], dy, transpose_a=True)]


def _shape(x):
    """Sizes of [N, H, W, C]: ints where they are known, scalar tensors where not."""
    sizes = x.shape.as_list()
    if None not in sizes:
        return sizes
    dynamic = tf.shape(x)
    return [dynamic[k] if d is None else d for k, d in enumerate(sizes)]


def _at_least_float32(x):
    return x if x.dtype in (tf.float32, tf.float64) else tf.cast(x, tf.float32)


if not versions.gradient_registered("ModelsLinearMap"):  # a reloaded module must not register twice
    tf.RegisterGradient("ModelsLinearMap")(_map_gradient)
