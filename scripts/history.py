"""What a run measured, step by step: model_dir/history.jsonl, and the curve drawn from it.

One JSON object a line: {"step", "loss", "learning_rate", "images_per_second"} as the run is logged, and
{"step", "miou"} (of a classifier {"step", "accuracy"}) for every evaluation. A resumed run goes on behind its
checkpoint: what was measured after it is dropped, since those steps are taken again.
"""

import json
import os

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

FILE_NAME = "history.jsonl"
SCORES = ("miou", "accuracy")  # what an evaluation may have measured, the best being 1
SCORE_NAMES = {"miou": "mIoU", "accuracy": "accuracy"}


class History:
    """The entries of one model_dir, appended as they come."""

    def __init__(self, model_dir, step=0):
        """Goes on at `step`: later entries of an earlier run are dropped."""
        self._path = os.path.join(model_dir, FILE_NAME)
        self.entries = [entry for entry in read(model_dir) if entry["step"] <= step]
        with open(self._path + ".partial", "w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in self.entries)
        os.replace(self._path + ".partial", self._path)

    def add(self, **entry):
        self.entries.append(entry)
        with open(self._path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def read(model_dir):
    """The entries kept in a model_dir, up to the first line that is none: a last line that was cut short, or damage."""
    path = os.path.join(model_dir, FILE_NAME)
    entries = []
    if os.path.exists(path):
        with open(path, errors="replace") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    break
                if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
                    break
                entries.append(entry)
    return entries


def points(entries, name):
    """The (step, value) pairs that were logged under a name."""
    return [(entry["step"], entry[name]) for entry in entries if entry.get(name) is not None]


def running_means(values, count):
    """Means over `count` neighbouring values, `count - 1` fewer than there are; of all where there are no more."""
    count = min(count, len(values))
    return np.convolve(values, np.full(count, 1 / count), mode="valid")


def score_of(entries):
    """Which of `SCORES` a run was evaluated by; the first where it never was."""
    return next((name for name in SCORES if points(entries, name)), SCORES[0])


def draw_curve(entries, path, title=""):
    """Writes a PNG with the loss over steps and, on an axis of its own, the score of every evaluation."""
    score = score_of(entries)
    losses, scores = points(entries, "loss"), points(entries, score)
    figure, loss_axis = pyplot.subplots(figsize=(7, 4), dpi=120)
    loss_axis.set(xlabel="step", title=title)
    loss_axis.set_ylabel("training loss", color="tab:blue")
    if losses:
        loss_axis.plot(*zip(*losses), color="tab:blue", linewidth=1)
    loss_axis.set_ylim(bottom=0)
    loss_axis.grid(alpha=0.3)
    if scores:
        score_axis = loss_axis.twinx()
        score_axis.plot(*zip(*scores), color="tab:orange", marker="o", markersize=4)
        score_axis.set_ylabel("validation " + SCORE_NAMES[score], color="tab:orange")
        score_axis.set_ylim(0, 1)
        score_axis.annotate(
            "{:.3f}".format(scores[-1][1]),
            scores[-1],
            textcoords="offset points",
            xytext=(-4, 6),
            ha="right",
            color="tab:orange",
        )
    figure.tight_layout()
    figure.savefig(path + ".partial", format="png")
    pyplot.close(figure)
    os.replace(path + ".partial", path)
