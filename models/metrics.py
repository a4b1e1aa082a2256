"""The confusion matrix, counted in the graph or in NumPy, and the official Cityscapes scores from it.

    n[t, p]   pixels of true class t that were predicted p; pixels with the ignored label are not counted
    IoU_c   = n[c, c] / (sum_p n[c, p] + sum_t n[t, c] - n[c, c])
    mIoU    = mean of IoU_c over the classes where that denominator is not 0: absent from truth and prediction
              alike, a class has no score and is left out of the mean, as in
              cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling. A class that is predicted somewhere
              but true nowhere scores 0 and counts, there as here.
    accuracy_c = n[c, c] / sum_p n[c, p], its mean over the classes that are true somewhere
    pixel accuracy = sum_c n[c, c] / sum n
"""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

StreamingConfusion = collections.namedtuple("StreamingConfusion", "total update_op reset_op")


def confusion_tensor(labels, predictions, num_classes, ignore_label=255):
    """Confusion matrix of one batch, [C, C] int64, rows the truth.

    Args:
      labels: integer tensor of any shape; `ignore_label` or 0..C-1.
      predictions: integer tensor of the same shape, 0..C-1.
    Any other value fails when the graph runs, with the value in the message: it would be counted in a wrong
    cell.
    """
    labels, predictions = (tf.reshape(tf.cast(t, tf.int32), [-1]) for t in (labels, predictions))
    counted = tf.not_equal(labels, ignore_label)
    labels, predictions = tf.boolean_mask(labels, counted), tf.boolean_mask(predictions, counted)
    checks = [_in_range("label", labels, num_classes), _in_range("prediction", predictions, num_classes)]
    with tf.control_dependencies(checks):
        cells = labels * num_classes + predictions
    # An int32 count within one batch is safe (2³¹ pixels); the sum over batches is not.
    counts = tf.math.bincount(cells, minlength=num_classes ** 2, maxlength=num_classes ** 2, dtype=tf.int32)
    return tf.cast(tf.reshape(counts, [num_classes, num_classes]), tf.int64)


def streaming_confusion(labels, predictions, num_classes, ignore_label=255, name="confusion"):
    """Confusion matrix summed over batches in a local variable.

    A local variable belongs to the tower that makes it: call this outside the towers on gathered labels and
    predictions, or add the towers' own totals.

    Returns:
      StreamingConfusion(total, update_op, reset_op): the sum so far ([C, C] int64), the op that adds this
      batch and gives the new sum, and the op that starts again from zero. `tf.local_variables_initializer()`
      first.
    """
    with tf.variable_scope(None, default_name=name):
        batch = confusion_tensor(labels, predictions, num_classes, ignore_label)
        total = tf.get_variable(
            "total", [num_classes, num_classes], tf.int64, initializer=tf.zeros_initializer(),
            trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], use_resource=True)
        update_op = total.assign_add(batch, read_value=True)
        reset_op = total.assign(tf.zeros_like(total)).op
        return StreamingConfusion(total.read_value(), tf.identity(update_op, name="update_op"), reset_op)


def confusion(labels, predictions, num_classes, ignore_label=255):
    """Confusion matrix of two integer arrays of the same shape, as NumPy [C, C] int64, rows the truth.

    Raises:
      ValueError: shapes differ, or a value is neither a class nor (in `labels`) `ignore_label`.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.shape != predictions.shape:
        raise ValueError("labels have shape {} but predictions {}: resize the prediction to the label's "
                         "size".format(labels.shape, predictions.shape))
    counted = labels != ignore_label
    labels, predictions = labels[counted].astype(np.int64), predictions[counted].astype(np.int64)
    for kind, values in (("label", labels), ("prediction", predictions)):
        if values.size and (values.min() < 0 or values.max() >= num_classes):
            bad = values.min() if values.min() < 0 else values.max()
            raise ValueError("{} {} is not a class: classes are 0..{}, ignored labels {}".format(
                kind, bad, num_classes - 1, ignore_label))
    cells = np.bincount(labels * num_classes + predictions, minlength=num_classes ** 2)
    return cells.reshape(num_classes, num_classes).astype(np.int64)


def scores(confusion_matrix):
    """Scores of a confusion matrix [C, C] (rows the truth).

    Returns:
      dict: `miou`, `mean_accuracy`, `pixel_accuracy` as floats (nan where nothing was counted),
      `per_class_iou` and `per_class_accuracy` as lists with None for a class without a score, and
      `num_classes_present`, the number of classes that `miou` is the mean of.
    """
    matrix = np.asarray(confusion_matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError("a confusion matrix is square, this one has shape {}".format(matrix.shape))
    matrix = matrix.astype(np.int64)
    hits, truth, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    iou = _ratios(hits, truth + predicted - hits)
    accuracy = _ratios(hits, truth)
    present = [value for value in iou if value is not None]
    total = int(matrix.sum())
    return {
        "miou": _mean(present),
        "mean_accuracy": _mean([value for value in accuracy if value is not None]),
        "pixel_accuracy": int(hits.sum()) / total if total else float("nan"),
        "per_class_iou": iou,
        "per_class_accuracy": accuracy,
        "num_classes_present": len(present),
    }


def _ratios(numerators, denominators):
    return [int(a) / int(b) if b else None for a, b in zip(numerators, denominators)]


def _mean(values):
    # Summed in order, one by one, as the official scorer does: the last digit agrees.
    return sum(values) / len(values) if values else float("nan")


def _in_range(kind, values, num_classes):
    allowed = tf.reduce_all(tf.logical_and(values >= 0, values < num_classes))
    message = "a {} is not a class (0..{}); lowest and highest seen:".format(kind, num_classes - 1)
    return tf.Assert(allowed, [message, tf.reduce_min(values), tf.reduce_max(values)])
