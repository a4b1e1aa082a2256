"""Sliding-window inference against the published procedure, written out in plain NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import inference

MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
CLASSES = 4
rng = np.random.RandomState(0)
COLOUR, DOWN, ACROSS, WHOLE = (
    rng.randn(3, CLASSES),
    rng.randn(CLASSES),
    rng.randn(CLASSES),
    rng.randn(3, CLASSES),
)


def numpy_network(x):
    """Logits from the pixel, its place in the crop and the whole crop, so that every window differs."""
    h, w = x.shape[:2]
    return (
        x.dot(COLOUR)
        + DOWN * (np.arange(h) / h)[:, None, None]
        + ACROSS * (np.arange(w) / w)[:, None] ** 2
        + x.mean(axis=(0, 1)).dot(WHOLE)
    )


def tensorflow_network(x):
    h, w = x.shape.as_list()[1:3]
    place = (DOWN * (np.arange(h) / h)[:, None, None] + ACROSS * (np.arange(w) / w)[:, None] ** 2).astype(
        np.float32
    )
    colour = tf.tensordot(x, tf.constant(COLOUR, tf.float32), 1)
    whole = tf.tensordot(tf.reduce_mean(x, axis=[1, 2], keepdims=True), tf.constant(WHOLE, tf.float32), 1)
    return colour + whole + place


def numpy_resize(x, height, width):
    """Bilinear with half-pixel centres, as cv2.INTER_LINEAR on floats."""

    def along(x, size, axis):
        n = x.shape[axis]
        source = np.clip((np.arange(size) + 0.5) * n / size - 0.5, 0, n - 1)
        low = np.floor(source).astype(int)
        high, part = np.minimum(low + 1, n - 1), source - low
        part = part.reshape([-1 if a == axis else 1 for a in range(3)])
        return np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part

    return along(along(x, height, 0), width, 1)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numpy_prediction(image, crop, stride_rate, scales, flip, resize=1.0, long_side=None):
    h, w = image.shape[:2]
    prediction = np.zeros((h, w, CLASSES))
    for scale in scales:
        long_size = round(scale * resize * (long_side or max(h, w)))
        new_h = new_w = long_size
        if h > w:
            new_w = round(long_size / h * w)
        else:
            new_h = round(long_size / w * h)
        scaled = numpy_resize(image.astype(np.float64), new_h, new_w)
        pad_h, pad_w = max(crop[0] - new_h, 0), max(crop[1] - new_w, 0)
        top, left = pad_h // 2, pad_w // 2
        padded = np.tile(np.array(MEAN), (new_h + pad_h, new_w + pad_w, 1))
        padded[top : top + new_h, left : left + new_w] = scaled
        stride_h, stride_w = int(np.ceil(crop[0] * stride_rate)), int(np.ceil(crop[1] * stride_rate))
        total, count = np.zeros(padded.shape[:2] + (CLASSES,)), np.zeros(padded.shape[:2])
        for a in range(int(np.ceil((padded.shape[0] - crop[0]) / stride_h)) + 1):
            for b in range(int(np.ceil((padded.shape[1] - crop[1]) / stride_w)) + 1):
                bottom, right = (
                    min(a * stride_h + crop[0], padded.shape[0]),
                    min(b * stride_w + crop[1], padded.shape[1]),
                )
                window = slice(bottom - crop[0], bottom), slice(right - crop[1], right)
                x = (padded[window] - MEAN) / STD
                result = softmax(numpy_network(x))
                if flip:
                    result = (result + softmax(numpy_network(x[:, ::-1]))[:, ::-1]) / 2
                total[window] += result
                count[window] += 1
        total = (total / count[:, :, None])[top : top + new_h, left : left + new_w]
        prediction += numpy_resize(total, h, w)
    return prediction / len(scales)


def photograph(height, width, seed=1):
    return np.random.RandomState(seed).randint(0, 256, (height, width, 3)).astype(np.uint8)


def predictor(num_towers=1, network=tensorflow_network, **options):
    devices = ["/cpu:%d" % k for k in range(num_towers)]
    return inference.SlidingWindowPredictor(
        network, CLASSES, devices, mean=MEAN, std=STD, **options
    ), tf.Session(config=towers.session_config(devices))


@pytest.mark.parametrize(
    "size, crop, options",
    [
        ((40, 60), (17, 25), dict()),
        ((40, 60), (17, 25), dict(flip=True, stride_rate=1 / 3)),
        ((30, 20), (41, 17), dict(flip=True)),  # higher than wide; smaller than the crop on one side
        (
            (13, 21),
            (33, 41),
            dict(flip=True, scales=(0.5, 1.0, 1.75)),
        ),  # smaller than the crop, by an odd number of pixels
        ((37, 53), (17, 25), dict(flip=True, scales=(0.5, 1.25), resize=0.5)),
        ((37, 53), (17, 25), dict(flip=True, scales=(0.5, 1.25), long_side=47)),
        ((60, 40), (17, 25), dict(long_side=30)),
        ((17, 25), (17, 25), dict()),
    ],
)
def test_probabilities_equal_the_published_procedure(size, crop, options):
    subject, session = predictor(crop_size=crop, **options)
    image = photograph(*size)
    expected = numpy_prediction(
        image, crop, **dict(dict(stride_rate=2 / 3, scales=(1.0,), flip=False), **options)
    )
    with session:
        result = subject.predict(session, image)
        np.testing.assert_allclose(result, expected, rtol=0, atol=3e-6)
        np.testing.assert_allclose(result.sum(axis=-1), 1, atol=1e-5)
        assert result.dtype == np.float32
        labels = subject.labels(session, image)
        np.testing.assert_array_equal(labels, result.argmax(axis=-1))
        assert labels.dtype == np.int32


def test_resizing_is_that_of_opencv():
    cv2 = pytest.importorskip("cv2")
    subject, session = predictor(crop_size=(17, 25))
    image = photograph(37, 53).astype(np.float32)
    with session:
        for size in ((18, 27), (65, 93)):
            np.testing.assert_allclose(
                subject._resize(session, image, size), cv2.resize(image, size[::-1]), atol=2e-3
            )


@pytest.mark.parametrize("num_towers", [2, 3])
def test_towers_share_windows_and_images_and_change_nothing(num_towers):
    images = [photograph(20 + 9 * k, 50 - 7 * k, seed=k) for k in range(5)]
    options = dict(crop_size=(25, 33), scales=(0.5, 1.0), flip=True)
    alone, session = predictor(1, **options)
    with session:
        expected = [alone.predict(session, image) for image in images]
    shared, session = predictor(num_towers, **options)
    with session:
        results = list(shared.predict_all(session, images))
        again = [shared.predict(session, images[3])]
        labels = list(shared.labels_all(session, images))
    assert len(results) == len(labels) == len(images)
    for result, label, reference in zip(results, labels, expected):
        np.testing.assert_allclose(result, reference, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(label, result.argmax(axis=-1))
    np.testing.assert_allclose(again[0], expected[3], rtol=0, atol=1e-6)


class CountingSession(object):
    """Counts network runs (what is fetched, is a list) and windows."""

    def __init__(self, session):
        self.session, self.runs, self.windows = session, 0, 0

    def run(self, fetches, feeds):
        if isinstance(fetches, list):
            self.runs += 1
            self.windows += len(fetches)
        return self.session.run(fetches, feeds)


def test_small_images_leave_no_tower_idle_and_no_window_runs_twice():
    subject, session = predictor(4, crop_size=(25, 33))
    with session:
        counting = CountingSession(session)
        list(subject.predict_all(counting, (photograph(20, 30, seed=k) for k in range(10))))
    assert (counting.runs, counting.windows) == (3, 10)


def test_one_image_at_a_time_is_held():
    subject, session = predictor(2, crop_size=(17, 25), scales=(1.0, 1.5))
    taken, given = [], []

    def images():
        for k in range(4):
            taken.append(k)
            yield photograph(40, 60, seed=k)

    with session:
        for k, _ in enumerate(subject.predict_all(session, images())):
            given.append((k, len(taken)))
    assert all(taken_by_then <= k + 2 for k, taken_by_then in given)


@pytest.mark.parametrize(
    "size, crop, rate",
    [
        ((1024, 2048), (713, 713), 2 / 3),
        ((1792, 3584), (713, 713), 2 / 3),
        ((512, 1024), (713, 713), 2 / 3),
        ((40, 41), (7, 9), 0.3),
        ((7, 9), (7, 9), 1.0),
        ((15, 9), (7, 9), 1.0),
    ],
)
def test_every_window_is_inside_and_every_pixel_is_covered(size, crop, rate):
    padded = [max(a, b) for a, b in zip(size, crop)]
    count = np.zeros(padded, int)
    plan = inference.window_plan(size[0], size[1], crop[0], crop[1], rate)
    assert len(plan) == len(set(plan))
    for top, left in plan:
        assert 0 <= top <= padded[0] - crop[0] and 0 <= left <= padded[1] - crop[1]
        count[top : top + crop[0], left : left + crop[1]] += 1
    assert count.min() >= 1


def test_windows_of_a_cityscapes_image_are_those_of_the_recipe():
    plan = inference.window_plan(1024, 2048, 713, 713, 2 / 3)
    assert plan == [(top, left) for top in (0, 311) for left in (0, 476, 952, 1335)]
    scales = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
    sizes = [inference.scaled_size(1024, 2048, scale) for scale in scales]
    windows = sum(len(inference.window_plan(h, w, 713, 713, 2 / 3)) for h, w in sizes)
    assert 2 * windows == 162


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.1])
def test_a_stride_that_leaves_gaps_is_refused(rate):
    with pytest.raises(ValueError, match="stride_rate"):
        inference.window_plan(10, 10, 5, 5, rate)


def test_wrong_images_and_scales_are_refused():
    with pytest.raises(ValueError, match="at least one scale"):
        predictor(crop_size=(17, 25), scales=())
    subject, session = predictor(crop_size=(17, 25))
    with session, pytest.raises(ValueError, match=r"\[H, W, 3\] is wanted"):
        subject.predict(session, np.zeros((5, 5), np.uint8))


def test_a_finalised_graph_is_enough():
    subject, session = predictor(crop_size=(17, 25), scales=(0.5, 1.0))
    tf.get_default_graph().finalize()
    with session:
        assert subject.predict(session, photograph(9, 30)).shape == (9, 30, CLASSES)
