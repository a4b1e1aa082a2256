"""The confusion matrix against counting pixel by pixel, its scores against the official Cityscapes scorer."""

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from models import metrics

IGNORE = 255


def counted_one_by_one(labels, predictions, num_classes):
    matrix = np.zeros((num_classes, num_classes), np.int64)
    for truth, predicted in zip(labels.ravel(), predictions.ravel()):
        if truth != IGNORE:
            matrix[truth, predicted] += 1
    return matrix


def random_maps(seed, num_classes=5, shape=(2, 7, 9), absent=()):
    rng = np.random.RandomState(seed)
    kinds = [c for c in range(num_classes) if c not in absent]
    labels = rng.choice(kinds + [IGNORE], shape)
    predictions = np.where(
        rng.rand(*shape) < 0.5, np.where(labels == IGNORE, 0, labels), rng.choice(kinds, shape)
    )
    return labels.astype(np.int32), predictions.astype(np.int32)


def test_numpy_confusion_counts_every_pixel_that_is_not_ignored():
    labels, predictions = random_maps(0)
    np.testing.assert_array_equal(
        metrics.confusion(labels, predictions, 5), counted_one_by_one(labels, predictions, 5)
    )
    assert metrics.confusion(labels, predictions, 5).dtype == np.int64


def test_graph_confusion_sums_batches_until_it_is_reset():
    label_in, prediction_in = tf.placeholder(tf.int32, [None, 7, 9]), tf.placeholder(tf.int64, [None, 7, 9])
    stream = metrics.streaming_confusion(label_in, prediction_in, 5)
    assert tf.global_variables() == [] and len(tf.local_variables()) == 1
    expected = np.zeros((5, 5), np.int64)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for seed in range(3):
            labels, predictions = random_maps(seed, shape=(seed + 1, 7, 9))
            expected += counted_one_by_one(labels, predictions, 5)
            seen = session.run(stream.update_op, {label_in: labels, prediction_in: predictions})
            np.testing.assert_array_equal(seen, expected)
        total = session.run(stream.total)
        np.testing.assert_array_equal(total, expected)
        assert total.dtype == np.int64
        session.run(stream.reset_op)
        assert session.run(stream.total).sum() == 0


def test_graph_confusion_of_ignored_pixels_alone_is_zero():
    matrix = metrics.confusion_tensor(tf.fill([1, 3, 3], IGNORE), tf.zeros([1, 3, 3], tf.int32), 4)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(matrix), np.zeros((4, 4)))


@pytest.mark.parametrize(
    "label, prediction, said",
    [(5, 0, "label"), (-1, 0, "label"), (0, 5, "prediction"), (0, -1, "prediction")],
)
def test_a_value_that_is_no_class_is_refused_and_named(label, prediction, said):
    with pytest.raises(ValueError, match="{} {}".format(said, label + prediction)):
        metrics.confusion(np.array([0, label]), np.array([0, prediction]), 5)
    matrix = metrics.confusion_tensor(tf.constant([0, label]), tf.constant([0, prediction]), 5)
    with tf.Session() as session, pytest.raises(
        tf.errors.InvalidArgumentError, match="a {} is not".format(said)
    ):
        session.run(matrix)


def test_maps_of_different_size_are_refused():
    with pytest.raises(ValueError, match="resize the prediction"):
        metrics.confusion(np.zeros((2, 3), int), np.zeros((3, 2), int), 2)


def test_scores_by_hand():
    # Class 0: 3 right, 1 taken for class 1. Class 1: 2 right. Class 2 is true nowhere, but predicted on one
    # pixel of class 1: it scores 0 and counts. Class 3 is nowhere at all: no score.
    matrix = [[3, 1, 0, 0], [0, 2, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    result = metrics.scores(matrix)
    assert result["per_class_iou"] == [3 / 4, 2 / 4, 0, None]
    assert result["per_class_accuracy"] == [3 / 4, 2 / 3, None, None]
    assert result["num_classes_present"] == 3
    assert result["miou"] == pytest.approx((3 / 4 + 2 / 4 + 0) / 3)
    assert result["mean_accuracy"] == pytest.approx((3 / 4 + 2 / 3) / 2)
    assert result["pixel_accuracy"] == pytest.approx(5 / 7)


def test_scores_of_nothing_are_nan_and_not_zero():
    result = metrics.scores(np.zeros((3, 3)))
    assert all(math.isnan(result[key]) for key in ("miou", "mean_accuracy", "pixel_accuracy"))
    assert result["per_class_iou"] == [None] * 3 and result["num_classes_present"] == 0


def test_counts_beyond_int32_are_exact():
    big = 2**40 + 1
    assert metrics.scores([[big, 1], [0, big]])["per_class_iou"][0] == big / (big + 1)


@pytest.mark.parametrize("absent", [(), (3, 14, 18)])
def test_scores_equal_the_official_scorer_to_the_last_digit(tmp_path, absent):
    scorer = pytest.importorskip("cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling")
    image = pytest.importorskip("PIL.Image")
    from cityscapesscripts.helpers.labels import labels as table

    ids = {label.trainId: label.id for label in table if 0 <= label.trainId < 255}
    ids[IGNORE] = 3
    to_id = np.vectorize(ids.get, otypes=[np.uint8])
    paths, total = ([], []), np.zeros((19, 19), np.int64)
    for k in range(2):
        labels, predictions = random_maps(k, 19, (40, 60), absent)
        labels[labels == 5] = 6  # class 5 is predicted, and true nowhere
        total += metrics.confusion(labels, predictions, 19)
        for side, kind, array in ((0, "pred", predictions), (1, "gtFine_labelIds", labels)):
            paths[side].append(str(tmp_path / "town_{:06}_000000_{}.png".format(k, kind)))
            image.fromarray(to_id(array)).save(paths[side][-1])
    scorer.args.evalInstLevelScore = False
    scorer.args.evalPixelAccuracy = False
    scorer.args.JSONOutput = False
    scorer.args.quiet = True
    official = scorer.evaluateImgLists(paths[0], paths[1], scorer.args)
    ours = metrics.scores(total)
    assert ours["miou"] == official["averageScoreClasses"]
    for label in table:
        if 0 <= label.trainId < 255:
            expected, mine = official["classScores"][label.name], ours["per_class_iou"][label.trainId]
            assert (mine is None) if math.isnan(expected) else mine == expected
    assert ours["per_class_iou"].count(None) == len(absent) and ours["per_class_iou"][5] == 0
