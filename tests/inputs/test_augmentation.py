"""Each operation against OpenCV or NumPy on the same numbers, windows against whole frames, draws against
their distributions.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from inputs import augmentation, transforms
from inputs.augmentation import Params

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


def parameters(**changes):
    return Params(
        **dict(
            dict(
                crop_size=(33, 41),
                scale_range=(0.5, 2.0),
                rotate_degrees=10.0,
                rotate_probability=0.5,
                blur_probability=0.5,
                flip_probability=0.5,
                mean=MEAN,
                std=STD,
            ),
            **changes,
        )
    )


@pytest.fixture
def cv2():
    return pytest.importorskip("cv2", reason="OpenCV is the oracle of the augmentation")


def picture(height=37, width=53, seed=0):
    rng = np.random.RandomState(seed)
    return rng.randint(0, 256, (height, width, 3)).astype(np.float32), rng.randint(
        0, 19, (height, width)
    ).astype(np.int32)


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


def cv2_scaled(cv2, image, label, size):
    image = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR)
    return image, cv2.resize(
        label.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT
    ).astype(np.int32)


def cv2_rotated(cv2, image, label, degrees):
    height, width = label.shape
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
    image = cv2.warpAffine(
        image,
        matrix,
        (width, height),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=MEAN,
    )
    label = cv2.warpAffine(
        label.astype(np.uint8),
        matrix,
        (width, height),
        flags=cv2.INTER_NEAREST,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=255,
    )
    return image, label.astype(np.int32)


@pytest.mark.parametrize("factor", [0.5, 0.613, 0.9999, 1.0, 1.37, 2.0])
def test_scaling_equals_opencv(cv2, factor):
    image, label = picture()
    size = run(transforms.scaled_size(tf.shape(label), factor))
    assert tuple(size) == cv2.resize(image, None, fx=factor, fy=factor).shape[:2]
    got_image, got_label = run(transforms.scale(image, label, tf.constant(size)))
    want_image, want_label = cv2_scaled(cv2, image, label, tuple(int(v) for v in size))
    np.testing.assert_allclose(got_image, want_image, atol=5e-3)
    np.testing.assert_array_equal(got_label, want_label)


def test_bytes_and_floats_scale_alike():
    image, label = picture()
    frame = tf.constant([50, 61])
    from_bytes, from_floats = run(
        [
            transforms.scale(image.astype(np.uint8), label, frame)[0],
            transforms.scale(image, label, frame)[0],
        ]
    )
    np.testing.assert_array_equal(from_bytes, from_floats)


@pytest.mark.parametrize("degrees", [-10.0, -0.3, 0.0, 3.7, 10.0, 90.0, 170.0])
def test_rotation_equals_opencv(cv2, degrees):
    image, label = picture()
    frame = tf.shape(label)
    got = run(
        transforms.rotate(
            tf.constant(image - np.float32(MEAN)),
            label,
            frame,
            tf.constant(degrees),
            transforms.whole(frame),
            transforms.whole(frame),
        )
    )
    want_image, want_label = cv2_rotated(cv2, image, label, degrees)
    np.testing.assert_allclose(got[0] + np.float32(MEAN), want_image, atol=0.02)
    # A sample on the border between two pixels may go to either.
    assert np.mean(got[1] != want_label) < 0.002


@pytest.mark.parametrize("size", [(37, 53), (3, 4), (2, 7), (1, 5)])
def test_blur_equals_opencv(cv2, size):
    image, _ = picture(*size)
    frame = tf.constant(size)
    got = run(transforms.blur(tf.constant(image), frame, transforms.whole(frame), transforms.whole(frame)))
    np.testing.assert_allclose(got, cv2.GaussianBlur(image, (5, 5), 0), atol=1e-3)


def test_flip_and_normalise_equal_numpy():
    image, label = picture()
    flipped_image, flipped_label = run(transforms.flip(tf.constant(image), tf.constant(label)))
    np.testing.assert_array_equal(flipped_image, image[:, ::-1])
    np.testing.assert_array_equal(flipped_label, label[:, ::-1])
    want = (image.astype(np.float64) - MEAN) / STD
    np.testing.assert_allclose(run(transforms.normalise(image.astype(np.uint8), MEAN, STD)), want, atol=1e-6)


def numpy_crop(image, label, size, crop_y, crop_x):
    """semseg's Crop(crop_type='rand', padding=mean, ignore_label=255), its random offsets given as
    fractions.
    """
    pad = [max(c - s, 0) for c, s in zip(size, label.shape)]
    around = [(p // 2, p - p // 2) for p in pad]
    label = np.pad(label, around, constant_values=255)
    image = np.stack([np.pad(image[..., k], around, constant_values=MEAN[k]) for k in range(3)], axis=-1)
    top, left = (int(u * (s - c + 1)) for u, s, c in zip((crop_y, crop_x), label.shape, size))
    return image[top : top + size[0], left : left + size[1]], label[
        top : top + size[0], left : left + size[1]
    ]


@pytest.mark.parametrize("size", [(20, 30), (37, 53), (40, 30), (20, 60), (44, 60)])
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.4, 0.7), (0.99999994, 0.99999994)])
def test_crop_and_padding_equal_numpy(size, place):
    image, label = picture()
    window, padding = transforms.crop_window(tf.shape(label), size, *(tf.constant(u) for u in place))
    whole = transforms.whole(tf.shape(label))
    part = [transforms.part(pixels, whole, window) for pixels in (tf.constant(image), tf.constant(label))]
    got_image, got_label = run(transforms.pad(transforms.normalise(part[0], MEAN, STD), part[1], padding))
    want_image, want_label = numpy_crop(image, label, size, *place)
    np.testing.assert_allclose(got_image * STD + MEAN, want_image, atol=1e-3)
    np.testing.assert_array_equal(got_label, want_label)


def opencv_augmented(cv2, image, label, drawn, crop_size):
    """The recipe on whole frames, step by step."""
    size = cv2.resize(image, None, fx=float(drawn["scale"]), fy=float(drawn["scale"])).shape[:2]
    image, label = cv2_scaled(cv2, image, label, size)
    if drawn["rotate"]:
        image, label = cv2_rotated(cv2, image, label, float(drawn["degrees"]))
    if drawn["blur"]:
        image = cv2.GaussianBlur(image, (5, 5), 0)
    if drawn["flip"]:
        image, label = image[:, ::-1], label[:, ::-1]
    image, label = numpy_crop(image, label, crop_size, drawn["crop_y"], drawn["crop_x"])
    return (image - MEAN) / STD, label


@pytest.mark.parametrize("crop_size", [(33, 41), (97, 121), (25, 121)])
def test_windows_give_what_whole_frames_give(cv2, crop_size):
    # Every combination that 60 keys draw, among them crops that lie wholly or partly outside the rotated
    # frame.
    params = parameters(crop_size=crop_size, rotate_degrees=45.0)
    image, label = picture(61, 83)
    key = tf.placeholder(tf.int64, [2])
    drawn = augmentation.draw_parameters(key, params)
    result = augmentation.augment(tf.constant(image.astype(np.uint8)), tf.constant(label), key, params)
    seen = set()
    with tf.Session() as session:
        for number in range(60):
            values, (got_image, got_label) = session.run([drawn, result], {key: [1, number]})
            want_image, want_label = opencv_augmented(cv2, image, label, values, crop_size)
            np.testing.assert_allclose(got_image, want_image, atol=2e-3)
            assert np.mean(got_label != want_label) < 0.003
            seen.add((bool(values["rotate"]), bool(values["blur"]), bool(values["flip"])))
    assert len(seen) == 8


@pytest.mark.parametrize("corner", [(0, 0), (0, 57), (37, 0), (37, 57)])
def test_a_window_wholly_outside_the_rotated_image_is_mean_and_ignored(corner):
    image, label = picture(40, 60)
    frame, degrees, window = tf.shape(label), tf.constant(45.0), tf.constant(corner + (3, 3))
    source = transforms.rotation_source(frame, degrees, window)
    top, left, height, width = run(source)
    assert 0 <= top and 0 <= left and 1 <= height <= 40 - top and 1 <= width <= 60 - left
    part = [
        transforms.part(tf.constant(pixels), transforms.whole(frame), source) for pixels in (image, label)
    ]
    got_image, got_label = run(transforms.rotate(*part, frame, degrees, source, window, fill=7.0))
    np.testing.assert_array_equal(got_image, np.full((3, 3, 3), 7.0))
    np.testing.assert_array_equal(got_label, np.full((3, 3), 255))


def test_labels_never_get_a_value_that_they_did_not_have():
    params = parameters(rotate_probability=1.0)
    image, label = picture()
    label = np.where(label < 9, 2, 17).astype(np.int32)
    key = tf.placeholder(tf.int64, [2])
    result = augmentation.augment(image, label, key, params)[1]
    with tf.Session() as session:
        for number in range(40):
            assert set(np.unique(session.run(result, {key: [5, number]}))) <= {2, 17, 255}


def test_a_tiny_image_survives_every_draw():
    params = parameters(rotate_probability=1.0, blur_probability=1.0, crop_size=(9, 9))
    key = tf.placeholder(tf.int64, [2])
    result = augmentation.augment(np.full((1, 2, 3), 50, np.uint8), np.full((1, 2), 4, np.int32), key, params)
    with tf.Session() as session:
        for number in range(20):
            image, label = session.run(result, {key: [0, number]})
            assert np.isfinite(image).all() and set(np.unique(label)) <= {4, 255}


def test_without_augmentation_the_crop_is_the_image():
    params = parameters(
        crop_size=(37, 53),
        scale_range=(1.0, 1.0),
        rotate_probability=0.0,
        blur_probability=0.0,
        flip_probability=0.0,
    )
    image, label = picture()
    got_image, got_label = run(augmentation.augment(image, label, tf.constant([1, 2]), params))
    np.testing.assert_allclose(got_image, (image - MEAN) / STD, atol=1e-5)
    np.testing.assert_array_equal(got_label, label)


def many_draws(number=4000, **changes):
    keys = tf.stack([tf.zeros([number], tf.int64) + 11, tf.range(number, dtype=tf.int64)], axis=1)
    dtypes = dict(
        scale=tf.float32,
        rotate=tf.bool,
        degrees=tf.float32,
        blur=tf.bool,
        flip=tf.bool,
        crop_y=tf.float32,
        crop_x=tf.float32,
    )
    return run(
        tf.map_fn(lambda key: augmentation.draw_parameters(key, parameters(**changes)), keys, dtype=dtypes)
    )


def test_draws_follow_the_recipes_distributions():
    draws = many_draws()
    for name, low, high in (
        ("scale", 0.5, 2.0),
        ("degrees", -10.0, 10.0),
        ("crop_y", 0.0, 1.0),
        ("crop_x", 0.0, 1.0),
    ):
        values = np.sort((draws[name] - low) / (high - low))
        assert 0 <= values[0] and values[-1] <= 1
        distance = np.abs(values - (np.arange(len(values)) + 0.5) / len(values)).max()
        assert distance < 1.95 / np.sqrt(len(values)), name  # Kolmogorov-Smirnov at 0.1 %
    for name in ("rotate", "blur", "flip"):
        assert abs(draws[name].mean() - 0.5) < 4 * 0.5 / np.sqrt(len(draws[name])), name


def test_draws_are_independent_of_each_other():
    draws = many_draws()
    values = np.stack([np.asarray(draws[name], np.float64) for name in sorted(draws)])
    correlation = np.corrcoef(values) - np.eye(len(values))
    assert np.abs(correlation).max() < 4.5 / np.sqrt(values.shape[1])


def test_draws_of_neighbouring_keys_are_independent():
    # A key that only added the draw's number to its last entry would repeat its neighbour's draws.
    draws = many_draws(600)
    for shift in (1, 2):
        for a in ("crop_x", "crop_y", "scale", "degrees"):
            for b in ("crop_x", "crop_y", "scale", "degrees"):
                assert abs(np.corrcoef(draws[a][:-shift], draws[b][shift:])[0, 1]) < 4.5 / np.sqrt(600), (
                    a,
                    b,
                )


def test_probabilities_zero_and_one_are_certain():
    never = many_draws(300, rotate_probability=0.0, blur_probability=0.0, flip_probability=0.0)
    always = many_draws(300, rotate_probability=1.0, blur_probability=1.0, flip_probability=1.0)
    for name in ("rotate", "blur", "flip"):
        assert not never[name].any() and always[name].all()


def test_equal_keys_give_equal_draws_and_neighbouring_keys_others():
    key = tf.placeholder(tf.int64, [2])
    scale = augmentation.draw_parameters(key, parameters())["scale"]
    with tf.Session() as session:
        again = [session.run(scale, {key: [3, 4]}) for _ in range(2)]
        others = [session.run(scale, {key: k}) for k in ([3, 5], [4, 4], [4, 3], [3, -4])]
    assert again[0] == again[1]
    assert len({float(v) for v in others + again}) == 5


@pytest.mark.parametrize(
    "change, name",
    [
        (dict(crop_size=(0, 5)), "crop_size"),
        (dict(crop_size=(5.5, 5)), "crop_size"),
        (dict(scale_range=(2.0, 0.5)), "scale_range"),
        (dict(scale_range=(0.0, 1.0)), "scale_range"),
        (dict(rotate_degrees=-1.0), "rotate_degrees"),
        (dict(flip_probability=1.5), "flip_probability"),
        (dict(blur_probability=-0.1), "blur_probability"),
        (dict(std=(1.0, 0.0, 1.0)), "std"),
        (dict(mean=(1.0,)), "mean"),
    ],
)
def test_values_that_cannot_be_meant_are_named(change, name):
    with pytest.raises(ValueError, match="input." + name):
        augmentation.check_params(parameters(**change))
