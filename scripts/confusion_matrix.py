"""A confusion matrix as it was written by a run: read, put into shares, and drawn."""

import json
import os

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

TEXT_UP_TO = 40  # classes; with more there is no room for numbers


def read(path):
    """(confusion [C, C] int64, C class names, a title) of an evaluation's JSON; ValueError where it holds none."""
    with open(path) as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise ValueError("{} is no JSON ({}): name a file that train.py or evaluate.py wrote".format(
                path, error)) from error
    try:
        names = list(content.get("per_class_iou") or content["per_class_accuracy"])
        matrix = np.array(content["confusion"], np.int64)
    except (AttributeError, KeyError, TypeError, ValueError):
        matrix, names = np.zeros([0]), []
    if matrix.shape != (len(names), len(names)) or not names or matrix.min() < 0:
        raise ValueError("{} holds no confusion matrix: run evaluate.py again, it writes one".format(path))
    score = next((name for name in ("miou", "accuracy") if content.get(name) is not None), None)
    title = os.path.basename(os.path.dirname(os.path.abspath(path))) + ", step {}".format(content.get("step"))
    if score:
        title += ": {} {:.3f}".format({"miou": "mIoU"}.get(score, score), content[score])
    return matrix, names, title + (" on {}".format(content["split"]) if "split" in content else "")


def present(matrix, names):
    """Without the classes that are neither true nor predicted anywhere; ValueError where none is left."""
    kept = np.flatnonzero(matrix.sum(axis=0) + matrix.sum(axis=1))
    if not kept.size:
        raise ValueError("the confusion matrix counts nothing: every label was ignored")
    return matrix[np.ix_(kept, kept)], [names[k] for k in kept]


def shares(matrix, normalise="truth"):
    """Each row (or column, for 'prediction') over its sum; NaN where that is 0."""
    sums = matrix.sum(axis=1, keepdims=True) if normalise == "truth" else matrix.sum(axis=0, keepdims=True)
    return np.where(sums > 0, matrix / np.maximum(sums, 1), np.nan)


def largest(matrix, names, number):
    """Lines about the largest confusions, by share of the true class."""
    rows = shares(matrix)
    wrong = np.where(np.eye(len(names), dtype=bool), 0, np.nan_to_num(rows))
    order = np.argsort(-wrong, axis=None, kind="stable")[:number]
    wide = max(map(len, names))
    for truth, predicted in zip(*np.unravel_index(order, wrong.shape)):
        if wrong[truth, predicted]:
            yield "{:>{}} taken for {:<{}} {:6.2f} % of it, {:,}".format(
                names[truth], wide, names[predicted], wide, 100 * wrong[truth, predicted], matrix[truth, predicted])


def draw(share, names, path, title="", normalise="truth"):
    """Writes a PNG of shares [C, C], rows the truth; a class without any is grey."""
    count = len(names)
    side = min(max(4.5, 0.48 * count + 2.6), 24)
    figure, axis = pyplot.subplots(figsize=(side + 0.8, side), dpi=110)
    colors = pyplot.get_cmap("Blues").with_extremes(bad="#dddddd")
    shown = axis.imshow(share, cmap=colors, vmin=0, vmax=1)
    font = 9 if count <= TEXT_UP_TO else max(4, min(9, 900 / count))
    axis.set_xticks(range(count), names, rotation=45, ha="right", rotation_mode="anchor", fontsize=font)
    axis.set_yticks(range(count), names, fontsize=font)
    axis.set(xlabel="predicted", ylabel="true", title=title)
    axis.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axis.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axis.grid(which="minor", color="white", linewidth=1 if count <= TEXT_UP_TO else 0.2)
    axis.tick_params(which="both", length=0)
    axis.spines[:].set_visible(False)
    if count <= TEXT_UP_TO:
        for (row, column), value in np.ndenumerate(share):
            if np.isfinite(value) and (value >= 0.005 or row == column):
                axis.text(column, row, "{:.0f}".format(100 * value), ha="center", va="center", fontsize=8,
                          color="white" if value > 0.55 else "black")
    bar = figure.colorbar(shown, ax=axis, fraction=0.04, pad=0.02, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.ax.set_yticklabels(["0 %", "25 %", "50 %", "75 %", "100 %"], fontsize=8)
    bar.outline.set_visible(False)
    bar.set_label("share of the {} class".format("true" if normalise == "truth" else "predicted"), fontsize=9)
    figure.savefig(path + ".partial", format="png", bbox_inches="tight", pad_inches=0.15)
    pyplot.close(figure)
    os.replace(path + ".partial", path)
