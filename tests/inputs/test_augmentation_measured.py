"""The augmentation as it comes out of the pipeline: measured in pixels, on photographs, and on images of odd sizes.

Image ramps tell where each pixel came from: red holds its column, green its row. After augmentation their slopes are

    d(red)/dx = ±cos(a)/s    d(red)/dy = -sin(a)/s        (± is + without flip)

so scale, angle and flip are measured, not taken from what was drawn.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from inputs import augmentation, cityscapes, decoding, pipeline
from tests.inputs.test_augmentation import MEAN, STD, opencv_augmented, parameters

NUMBER = 1500
SIDE = 80


def keys(number=NUMBER, examples=60):
    """The keys of the examples of consecutive epochs, as training has them."""
    index = tf.range(number, dtype=tf.int64) % examples
    epoch = tf.range(number, dtype=tf.int64) // examples
    return tf.map_fn(lambda pair: pipeline.augmentation_key(0, pair[0], pair[1]), (epoch, index), dtype=tf.int64)


def distance_from_uniform(values, low, high):
    """Kolmogorov and Smirnov's: the greatest distance between the distribution of values and the uniform one."""
    values = np.sort((np.asarray(values, np.float64) - low) / (high - low))
    steps = np.arange(len(values) + 1) / len(values)
    return max(np.abs(values - steps[1:]).max(), np.abs(values - steps[:-1]).max())


def allowed_distance(number):
    return 1.95 / np.sqrt(number)  # exceeded by chance once in a thousand


@pytest.fixture(scope="module")
def measured():
    """(scale, degrees, flipped) of many augmented ramps, from their pixels."""
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    image = np.stack([x, y, 0 * x], axis=-1).astype(np.float32)
    label = np.ones((SIDE, SIDE), np.int32)
    params = parameters(crop_size=(31, 31), mean=(0.0,) * 3, std=(1.0,) * 3)
    with tf.Graph().as_default(), tf.Session() as session:
        images, labels = session.run(tf.map_fn(
            lambda key: augmentation.augment(image, label, key, params), keys(), dtype=(tf.float32, tf.int32),
            parallel_iterations=4))
    values = []
    for ramps, inside in zip(images, labels == 1):
        # Pixels whose neighbourhood is inside and off the image's own border, where scaling repeats it and blur mirrors.
        sound = inside & (np.abs(ramps[..., :2] - (SIDE - 1) / 2).max(axis=-1) < SIDE / 2 - 8)
        right, down = sound[:, 1:] & sound[:, :-1], sound[1:] & sound[:-1]
        dx = np.median(np.diff(ramps[..., 0], axis=1)[right])
        dy = np.median(np.diff(ramps[..., 0], axis=0)[down])
        values.append((1 / np.hypot(dx, dy), np.degrees(np.arctan(-dy / abs(dx))), dx < 0))
    return np.array(values).T


def test_scales_are_uniform_between_a_half_and_two(measured):
    scale = measured[0]
    assert 0.495 < scale.min() < 0.51 and 1.98 < scale.max() < 2.01  # a scaled side is a whole number of pixels
    assert distance_from_uniform(scale, 0.5, 2.0) < allowed_distance(NUMBER)


def test_half_the_images_are_turned_by_angles_uniform_between_minus_and_plus_ten(measured):
    degrees = measured[1]
    turned = np.abs(degrees) > 0.01
    assert abs(turned.mean() - 0.5) < 4 * 0.5 / np.sqrt(NUMBER)
    assert np.abs(degrees).max() < 10.1
    # Turns that are seen after a flip look mirrored; the distribution is symmetric.
    assert distance_from_uniform(degrees[turned], -10, 10) < allowed_distance(turned.sum()) + 0.001


def test_half_the_images_are_flipped_whatever_else_happens_to_them(measured):
    scale, degrees, flipped = measured
    for part in (slice(None), scale < 1.25, scale >= 1.25, np.abs(degrees) > 0.01, np.abs(degrees) <= 0.01):
        share = flipped[part]
        assert abs(share.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(share))


def test_half_the_images_are_blurred_and_the_rest_untouched():
    rng = np.random.RandomState(0)
    image = rng.randint(0, 256, (9, 11, 3)).astype(np.uint8)
    params = parameters(crop_size=(9, 11), scale_range=(1.0, 1.0), rotate_probability=0.0, flip_probability=0.0,
                        mean=(0.0,) * 3, std=(1.0,) * 3)
    with tf.Session() as session:
        images = session.run(tf.map_fn(
            lambda key: augmentation.augment(image, np.zeros((9, 11), np.int32), key, params)[0], keys(),
            dtype=tf.float32, parallel_iterations=4))
    sharp = np.abs(images - image).max(axis=(1, 2, 3)) < 1e-3
    assert abs(sharp.mean() - 0.5) < 4 * 0.5 / np.sqrt(NUMBER)
    assert np.ptp(images[~sharp], axis=0).max() < 1e-3  # one blur, always the same


def test_rotation_blur_and_flip_fall_in_all_eight_ways_alike():
    with tf.Session() as session:
        dtypes = dict({name: tf.float32 for name in ("scale", "degrees", "crop_y", "crop_x")},
                      **{name: tf.bool for name in ("rotate", "blur", "flip")})
        drawn = session.run(tf.map_fn(
            lambda key: augmentation.draw_parameters(key, parameters()), keys(4000), dtype=dtypes))
    ways = np.bincount(4 * drawn["rotate"] + 2 * drawn["blur"] + drawn["flip"], minlength=8)
    assert ((ways - 500) ** 2 / 500).sum() < 24.3  # chi-squared, 7 degrees of freedom, once in a thousand
    for name, low, high in (("scale", 0.5, 2), ("degrees", -10, 10), ("crop_y", 0, 1), ("crop_x", 0, 1)):
        for flipped in (False, True):
            values = drawn[name][drawn["flip"] == flipped]
            assert distance_from_uniform(values, low, high) < allowed_distance(len(values)), name


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (2, 3), (5, 64), (64, 5), (37, 53)])
def test_labels_of_any_size_never_get_a_value_that_they_did_not_have(size):
    values = [0, 7, 18, 255]  # means of any two are none of them
    rng = np.random.RandomState(sum(size))
    image = rng.randint(0, 256, size + (3,)).astype(np.uint8)
    label = rng.choice(values, size).astype(np.int32)
    params = parameters(crop_size=(25, 33), scale_range=(0.3, 3.0), rotate_degrees=180.0, rotate_probability=0.8)
    with tf.Session() as session:
        images, labels = session.run(tf.map_fn(
            lambda key: augmentation.augment(image, label, key, params), keys(150), dtype=(tf.float32, tf.int32)))
    assert set(np.unique(labels)) <= set(np.unique(label)) | {255}
    assert np.isfinite(images).all()
    low, high = (np.array([0.0, 255.0])[:, None] - MEAN) / np.array(STD)  # nor colours that no image has
    assert (images > low - 1e-3).all() and (images < high + 1e-3).all()


@pytest.mark.parametrize("size, crop", [((20, 31), (33, 40)), ((50, 31), (33, 40)), ((33, 61), (33, 40))])
def test_padding_and_flip_equal_opencv(size, crop):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is the oracle of the augmentation")
    rng = np.random.RandomState(1)
    image = rng.randint(0, 256, size + (3,)).astype(np.float32)
    label = rng.randint(0, 19, size).astype(np.int32)
    drawn = dict(scale=1.0, degrees=0.0, rotate=False, blur=False, flip=True, crop_y=0.4, crop_x=0.7)
    tensors = {name: tf.constant(value) for name, value in drawn.items()}
    with tf.Session() as session:
        got_image, got_label = session.run(
            augmentation.apply_parameters(image, label, tensors, parameters(crop_size=crop)))
    high, wide = (max(c - n, 0) for c, n in zip(crop, size))
    border = (high // 2, high - high // 2, wide // 2, wide - wide // 2, cv2.BORDER_CONSTANT)
    image = cv2.copyMakeBorder(cv2.flip(image, 1), *border, value=MEAN)
    label = cv2.copyMakeBorder(cv2.flip(label, 1), *border, value=255)
    top, left = (int(u * (n - c + 1)) for u, n, c in zip((0.4, 0.7), label.shape, crop))
    window = slice(top, top + crop[0]), slice(left, left + crop[1])
    np.testing.assert_allclose(got_image * STD + MEAN, image[window], atol=1e-3)
    np.testing.assert_array_equal(got_label, label[window])


def test_photographs_are_augmented_as_opencv_would(camvid_root):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is the oracle of the augmentation")
    examples = cityscapes.list_examples(camvid_root, "train")[::40]
    params = parameters(crop_size=(201, 233))
    path, label_path = tf.placeholder(tf.string, []), tf.placeholder(tf.string, [])
    key = tf.placeholder(tf.int64, [2])
    image, label = decoding.read_example(path, label_path)
    drawn = augmentation.draw_parameters(key, params)
    result = augmentation.apply_parameters(image, label, drawn, params)
    with tf.Session() as session:
        for number in range(12):
            example = examples[number % len(examples)]
            pixels, classes, values, (got_image, got_label) = session.run(
                [image, label, drawn, result],
                {path: example.image_path, label_path: example.label_path, key: [7, number]})
            want_image, want_label = opencv_augmented(
                cv2, pixels.astype(np.float32), classes, values, params.crop_size)
            np.testing.assert_allclose(got_image, want_image, atol=2e-3)  # in units of std: 0.1 of a grey level
            # A sample on the border between two pixels may go to either: at some scales a whole column of them.
            assert np.mean(got_label != want_label) < 0.003
