"""Images by their scores, the worst first, looked at one after the other."""

import collections
import csv
import heapq
import math
import os

import numpy as np

from models import metrics

SCORES = {"miou": "mIoU", "mean_accuracy": "mean accuracy", "pixel_accuracy": "pixel accuracy"}
Row = collections.namedtuple("Row", "name score scores pixels")


def rank(scored, by, number):
    """(all `Row`s, worst first; the `Scored` of the first `number`, beside their rows).

    Images are looked at one after the other, and no more than `number` are kept. Those without a counted pixel have no
    score (NaN) and come last.
    """
    rows, kept = [], []
    for order, one in enumerate(scored):
        scores = metrics.scores(one.confusion)
        row = Row(one.example.name, scores[by], scores, int(one.confusion.sum()))
        rows.append(row)
        badness = -row.score if math.isfinite(row.score) else -math.inf
        small = one._replace(truth=one.truth.astype(np.uint8), prediction=one.prediction.astype(np.uint8))
        (heapq.heappush if len(kept) < number else heapq.heappushpop)(kept, (badness, -order, row, small))
    rows.sort(key=lambda row: row.score if math.isfinite(row.score) else math.inf)
    return rows, [(row, one) for _, _, row, one in sorted(kept, key=lambda entry: (-entry[0], -entry[1]))]


def write_csv(rows, class_names, path):
    """Writes a line an image, whole or not at all; empty where there is no score."""
    with open(path + ".partial", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["rank", "name", *SCORES, "counted_pixels", *("IoU " + name for name in class_names)])
        for rank_, row in enumerate(rows, start=1):
            values = [row.scores[name] for name in SCORES] + [row.pixels] + row.scores["per_class_iou"]
            table.writerow([rank_, row.name] + ["" if v is None or v != v else _text(v) for v in values])
    os.replace(path + ".partial", path)


def _text(value):
    return "{:.6f}".format(value) if isinstance(value, float) else value
