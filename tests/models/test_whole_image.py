"""One pass over whole images against the sliding-window prediction written out in NumPy, for sizes known and unknown."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from models import pspnet, whole_image
from tests.models.test_inference import (
    ACROSS,
    CLASSES,
    COLOUR,
    DOWN,
    MEAN,
    STD,
    WHOLE,
    numpy_prediction,
    photograph,
    tensorflow_network,
)


def network(x):
    """`tensorflow_network` for sizes that are known only when the graph runs."""
    if None not in x.shape.as_list()[1:3]:
        return tensorflow_network(x)
    h, w = [tf.cast(n, tf.float32) for n in (tf.shape(x)[1], tf.shape(x)[2])]
    down = tf.constant(DOWN, tf.float32) * (tf.range(h) / h)[:, None, None]
    across = tf.constant(ACROSS, tf.float32) * (tf.range(w) / w)[:, None] ** 2
    whole = tf.tensordot(tf.reduce_mean(x, axis=[1, 2], keepdims=True), tf.constant(WHOLE, tf.float32), 1)
    return tf.tensordot(x, tf.constant(COLOUR, tf.float32), 1) + whole + down + across


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size, resize, long_side, window", [
    ((41, 57), 1.0, None, (41, 57)),
    ((40, 60), 1.0, None, (41, 65)),
    ((30, 7), 1.0, None, (33, 9)),
    ((64, 101), 0.5, None, (33, 57)),  # 32x50 inside: 31.68 and 50.5, half to even
    ((37, 21), 1.5, None, (57, 33)),
    ((37, 21), 1.0, 50, (57, 33)),  # 50x28 inside
    ((40, 60), 0.5, 90, (33, 49)),  # 30x45 inside
])
def test_it_is_the_sliding_window_prediction_with_one_window(size, resize, long_side, window, known):
    images = np.stack([photograph(size[0], size[1], seed) for seed in (1, 2)])
    for dtype in (tf.uint8, tf.float32):
        placeholder = tf.placeholder(dtype, [None] + list(size if known else (None, None)) + [3])
        result = whole_image.predict(network, placeholder, MEAN, STD, whole_image.multiple(8, 1), resize, long_side)
        assert result["probabilities"].shape.as_list()[3] == CLASSES
        with tf.Session() as session:
            found = session.run(result, {placeholder: images})
        factor = resize * (long_side / max(size) if long_side else 1)
        for k in range(2):
            expected = numpy_prediction(images[k], window, 2 / 3, (1.0,), False, factor)
            np.testing.assert_allclose(found["probabilities"][k], expected, rtol=0, atol=1e-5)  # resizing rounds in float32
        np.testing.assert_array_equal(found["labels"], found["probabilities"].argmax(axis=-1))
        assert found["labels"].dtype == np.int32 and found["probabilities"].dtype == np.float32


@pytest.mark.parametrize("align_corners, offset", [(True, 1), (False, 0)])
def test_sizes_that_fit_are_the_networks_own(align_corners, offset):
    fit = whole_image.multiple(8, offset)
    sizes = list(range(1, 60))
    assert [fit(n) for n in sizes] == [pspnet.fitting_size(n, align_corners) for n in sizes]
    with tf.Session() as session:
        assert session.run([fit(tf.constant(n)) for n in sizes]) == [fit(n) for n in sizes]
    for n in sizes:
        pspnet.check_input_size(fit(n), fit(n), align_corners)
        assert n <= fit(n) <= max(n + 7, 9)


def test_the_plain_pyramid_is_given_sizes_that_its_bins_divide():
    assert pspnet.fitting_size(713, align_corners=False, pyramid="average") == 720  # 720 / 8 = 90
    assert pspnet.fitting_size(864, align_corners=False, pyramid="average") == 864
