"""What a run measured, step by step: model_dir/history.jsonl, and the curve drawn from it.

One JSON object a line: {"step", "loss", "learning_rate", "images_per_second"} as the run is logged, and
{"step", "miou"} for every evaluation. A resumed run goes on behind its checkpoint: what was measured after it
is dropped, since those steps are taken again.
"""

import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

FILE_NAME = "history.jsonl"


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
    """The entries kept in a model_dir; a last line that was cut short is left out."""
    path = os.path.join(model_dir, FILE_NAME)
    entries = []
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                try:
                    entries.append(json.loads(line))
                except ValueError:
                    break
    return entries


def draw_curve(entries, path, title=""):
    """Writes a PNG with the loss over steps and, on an axis of its own, the mIoU of every evaluation."""
    losses = [(entry["step"], entry["loss"]) for entry in entries if "loss" in entry]
    scores = [(entry["step"], entry["miou"]) for entry in entries if entry.get("miou") is not None]
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
        score_axis.set_ylabel("validation mIoU", color="tab:orange")
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
