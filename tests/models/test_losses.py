"""The segmentation loss against float64 NumPy: means, class weights, hard and ignored pixels, gradients."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import losses

IGNORE = 255


def cross_entropy(logits, labels):
    """Per-pixel cross-entropy of the pixels that count, and their classes."""
    flat, classes = logits.reshape(-1, logits.shape[-1]).astype(np.float64), labels.reshape(-1)
    flat, classes = flat[classes != IGNORE], classes[classes != IGNORE]
    top = flat.max(axis=1)
    return top + np.log(np.exp(flat - top[:, None]).sum(axis=1)) - flat[
        np.arange(len(classes)), classes
    ], classes


def reference(logits, labels, class_weights=None, fraction=None):
    """Sum of w·l and sum of w, over the pixels kept."""
    values, classes = cross_entropy(logits, labels)
    weights = np.ones(len(values)) if class_weights is None else np.asarray(class_weights)[classes]
    if fraction is not None:
        order = np.argsort(-values)[: int(np.ceil(round(fraction * len(values), 6)))]
        values, weights = values[order], weights[order]
    return (values * weights).sum(), weights.sum()


def example(seed=0, shape=(2, 7, 5), num_classes=4, ignored=0.3, dtype=np.float64):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, num_classes, shape).astype(np.int32)
    labels[rng.rand(*shape) < ignored] = IGNORE
    return (rng.randn(*(shape + (num_classes,))) * 3).astype(dtype), labels


def loss_and_gradient(logits, labels, **options):
    fed = tf.constant(logits)
    loss = losses.segmentation_loss(fed, tf.constant(labels), **options)
    with tf.Session() as session:
        return session.run([loss, tf.gradients(loss, fed)[0]])


@pytest.mark.parametrize("mean", ["tower", "global"])
@pytest.mark.parametrize("class_weights", [None, (1.0, 0.5, 3.0, 0.0)])
@pytest.mark.parametrize("fraction", [None, 1.0, 0.6, 0.07])
def test_loss_and_gradient_equal_numpy(mean, class_weights, fraction):
    logits, labels = example()
    loss, gradient = loss_and_gradient(
        logits, labels, mean=mean, class_weights=class_weights, hard_pixel_fraction=fraction
    )
    total, weight = reference(logits, labels, class_weights, fraction)
    assert loss == pytest.approx(total / weight, rel=1e-12)
    direction = np.random.RandomState(1).randn(*logits.shape)
    step = 1e-6
    numeric = [
        np.divide(*reference(logits + s * step * direction, labels, class_weights, fraction)) for s in (1, -1)
    ]
    assert (gradient * direction).sum() == pytest.approx((numeric[0] - numeric[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("mean", ["tower", "global"])
@pytest.mark.parametrize("fraction", [None, 0.5])
@pytest.mark.parametrize("class_weights", [None, (1.0, 0.5, 3.0, 2.0)])
def test_ignored_pixels_alone_give_zero_loss_and_zero_gradient(mean, fraction, class_weights):
    logits, labels = example(ignored=1.1)
    loss, gradient = loss_and_gradient(
        logits, labels, mean=mean, class_weights=class_weights, hard_pixel_fraction=fraction
    )
    assert loss == 0 and not gradient.any()


def test_classes_of_weight_zero_alone_give_zero_and_not_nan():
    logits, labels = example()
    loss, gradient = loss_and_gradient(
        logits, np.where(labels == IGNORE, IGNORE, 1), class_weights=(1.0, 0.0, 1.0, 1.0)
    )
    assert loss == 0 and not gradient.any()


def test_no_gradient_reaches_ignored_pixels():
    logits, labels = example()
    for fraction in (None, 0.5):
        _, gradient = loss_and_gradient(logits, labels, hard_pixel_fraction=fraction)
        assert not gradient[labels == IGNORE].any() and gradient[labels != IGNORE].any()


def test_hard_pixels_are_as_many_as_asked_and_the_hardest():
    logits, labels = example(ignored=0.0, shape=(1, 10, 10))
    _, gradient = loss_and_gradient(logits, labels, hard_pixel_fraction=0.07)
    kept = gradient.any(axis=-1).reshape(-1)
    values, _ = cross_entropy(logits, labels)
    assert kept.sum() == 7 and values[kept].min() > values[~kept].max()


def test_half_precision_logits_are_reduced_in_float32():
    logits, labels = example(shape=(1, 200, 200), dtype=np.float16)
    loss, gradient = loss_and_gradient(logits, labels)
    total, weight = reference(logits.astype(np.float64), labels)
    assert loss.dtype == np.float32 and gradient.dtype == np.float16
    assert loss == pytest.approx(total / weight, rel=1e-5)


def per_tower(logits, labels, **options):
    """Losses of two towers that hold one image each, and the gradient of their mean."""
    fed = tf.constant(logits)
    results = towers.build(
        lambda x, y: losses.segmentation_loss(x, y, **options),
        [(x, y) for x, y in zip(tf.split(fed, 2), tf.split(tf.constant(labels), 2))],
        ["/cpu:0", "/cpu:0"],
    )
    with tf.Session() as session:
        return session.run([results, tf.gradients(tf.add_n(results) / 2, fed)[0]])


@pytest.mark.parametrize("class_weights", [None, (1.0, 0.5, 3.0, 0.1)])
def test_global_mean_over_two_towers_is_the_mean_of_the_whole_batch(class_weights):
    logits, labels = example()
    labels[0, :5] = IGNORE  # one tower has far fewer pixels than the other
    values, gradient = per_tower(logits, labels, mean="global", class_weights=class_weights)
    tf.reset_default_graph()
    loss, expected = loss_and_gradient(logits, labels, class_weights=class_weights)
    assert np.mean(values) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-14)


def test_tower_mean_is_of_the_tower_alone():
    logits, labels = example()
    labels[0, :5] = IGNORE
    values, _ = per_tower(logits, labels, mean="tower")
    for value, image, truth in zip(values, logits, labels):
        assert value == pytest.approx(np.divide(*reference(image, truth)), rel=1e-12)


def test_pspnet_loss_adds_the_auxiliary_head_with_its_weight():
    config = types.SimpleNamespace(mean="tower", aux_weight=0.4, class_weights=None, hard_pixel_fraction=None)
    (logits, labels), (aux_logits, _) = example(0), example(1)
    result = losses.pspnet_loss(
        {"logits": tf.constant(logits), "aux_logits": tf.constant(aux_logits)}, tf.constant(labels), config
    )
    alone = losses.pspnet_loss(
        {"logits": tf.constant(logits), "aux_logits": None}, tf.constant(labels), config
    )
    with tf.Session() as session:
        result, alone = session.run([result, alone])
    main, aux = (np.divide(*reference(x, labels)) for x in (logits, aux_logits))
    assert result["main_loss"] == pytest.approx(main) and result["aux_loss"] == pytest.approx(aux)
    assert result["loss"] == pytest.approx(main + 0.4 * aux)
    assert set(alone) == {"loss", "main_loss"} and alone["loss"] == pytest.approx(main)


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(mean="batch"), "'batch' is unknown.*'tower', 'global'"),
        (dict(class_weights=(1.0, 2.0)), "2 class weights for 4 classes"),
        (dict(class_weights=(1.0, 2.0, -1.0, 1.0)), "-1.0 is negative"),
        (dict(hard_pixel_fraction=0.0), r"0.0 is not in \(0, 1\]"),
        (dict(hard_pixel_fraction=1.5), r"1.5 is not in \(0, 1\]"),
    ],
)
def test_wrong_options_end_in_one_line_that_says_what_to_do(options, said):
    logits, labels = example()
    with pytest.raises(ValueError, match=said) as error:
        loss_and_gradient(logits, labels, **options)
    assert "\n" not in str(error.value)


def test_labels_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"logits \[1, 9, 9, 4\] do not fit labels \[1, 5, 5\]"):
        losses.segmentation_loss(tf.zeros([1, 9, 9, 4]), tf.zeros([1, 5, 5], tf.int32))
