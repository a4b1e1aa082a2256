"""Adaptive pooling against loops over its windows, bilinear resizing against interpolation point by point."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from models import resampling


def average_by_loops(x, bins):
    n, height, width, channels = x.shape
    out = np.zeros((n, bins, bins, channels))
    for i in range(bins):
        for j in range(bins):
            rows = slice(int(np.floor(i * height / bins)), int(np.ceil((i + 1) * height / bins)))
            columns = slice(int(np.floor(j * width / bins)), int(np.ceil((j + 1) * width / bins)))
            out[:, i, j] = x[:, rows, columns].mean(axis=(1, 2))
    return out


def resize_by_points(x, height, width, align_corners):
    n, h, w, channels = x.shape
    out = np.zeros((n, height, width, channels))
    for i in range(height):
        for j in range(width):
            if align_corners:
                y = i * (h - 1) / (height - 1) if height > 1 else 0.0
                z = j * (w - 1) / (width - 1) if width > 1 else 0.0
            else:
                y, z = i * h / height, j * w / width
            top, left = min(int(y), h - 1), min(int(z), w - 1)
            bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
            down, across = y - top, z - left
            out[:, i, j] = (x[:, top, left] * (1 - across) + x[:, top, right] * across) * (1 - down) + (
                x[:, bottom, left] * (1 - across) + x[:, bottom, right] * across
            ) * down
    return out


def run(function, x, dynamic):
    fed = tf.placeholder(x.dtype, [None, None, None, x.shape[3]] if dynamic else x.shape)
    with tf.Session() as session:
        return session.run(function(fed), {fed: x})


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [(12, 6), (13, 11), (23, 30), (5, 4), (1, 2), (90, 7)])
def test_adaptive_average_is_the_mean_of_its_windows(size, dynamic):
    x = np.random.RandomState(0).randn(2, size[0], size[1], 3)
    results = run(lambda t: resampling.adaptive_average_pool(t, (1, 2, 3, 6)), x, dynamic)
    for bins, result in zip((1, 2, 3, 6), results):
        np.testing.assert_allclose(result, average_by_loops(x, bins), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize(
    "size, to",
    [
        ((2, 3), (9, 17)),
        ((6, 6), (23, 30)),
        ((1, 1), (5, 4)),
        ((3, 2), (24, 16)),
        ((9, 7), (3, 2)),
        ((4, 4), (1, 1)),
    ],
)
def test_bilinear_resize_interpolates_point_by_point(size, to, align_corners, dynamic):
    x = np.random.RandomState(1).randn(2, size[0], size[1], 3)
    result = run(lambda t: resampling.resize_bilinear(t, to, align_corners), x, dynamic)
    np.testing.assert_allclose(result, resize_by_points(x, to[0], to[1], align_corners), rtol=0, atol=1e-12)


@pytest.mark.parametrize("align_corners", [True, False])
def test_bilinear_resize_equals_tensorflows(align_corners):
    x = np.random.RandomState(2).randn(2, 12, 15, 19).astype(np.float32)
    fed = tf.constant(x)
    ours = resampling.resize_bilinear(fed, (96, 121), align_corners)
    theirs = tf.image.resize_bilinear(fed, (96, 121), align_corners=align_corners)
    upstream = tf.constant(np.random.RandomState(3).randn(2, 96, 121, 19).astype(np.float32))
    with tf.Session() as session:
        a, b, da, db = session.run(
            [ours, theirs] + [tf.gradients(y, fed, upstream)[0] for y in (ours, theirs)]
        )
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)
    np.testing.assert_allclose(da, db, rtol=0, atol=1e-3)


def test_sizes_stay_known_and_half_precision_stays_half():
    x = tf.zeros([2, 23, 30, 4], tf.float16)
    pooled = resampling.adaptive_average_pool(x, (1, 6))
    resized = resampling.resize_bilinear(pooled[1], (23, 30))
    assert [p.shape.as_list() for p in pooled] == [[2, 1, 1, 4], [2, 6, 6, 4]]
    assert resized.shape.as_list() == [2, 23, 30, 4]
    assert pooled[0].dtype == resized.dtype == tf.float16
