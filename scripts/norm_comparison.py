"""What comparing kinds of batch norm gave: mean and spread over seeds, as a table, as JSON and as a figure.

The spread is the standard deviation of a sample, s² = Σ(x - mean)² / (n - 1): with one seed there is none.
"""

import collections
import json
import os
import statistics

import matplotlib
import numpy as np

from scripts import history

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

Run = collections.namedtuple("Run", "variant seed model_dir step miou batch_size")
COLORS = ("#3182bd", "#e6550d", "#969696")


def read(variant, seed, model_dir):
    """A finished `Run`, from its metrics.json and config.json."""
    with open(os.path.join(model_dir, "metrics.json")) as file:
        metrics = json.load(file)
    with open(os.path.join(model_dir, "config.json")) as file:
        config = json.load(file)
    return Run(variant, seed, model_dir, metrics["step"], metrics["miou"], config["batch_size"])


def summary(runs):
    """A list of dicts, one a variant, in the order of the runs: variant, seeds, miou (a list), mean, spread."""
    groups = collections.OrderedDict()
    for run in runs:
        groups.setdefault(run.variant, []).append(run)
    rows = []
    for variant, members in groups.items():
        scores = [run.miou for run in members if run.miou is not None]
        rows.append({
            "variant": variant.name,
            "title": variant.title(members[0].batch_size),
            "seeds": [run.seed for run in members],
            "miou": [run.miou for run in members],
            "mean": statistics.mean(scores) if scores else None,
            "spread": statistics.stdev(scores) if len(scores) > 1 else None,
        })
    return rows


def markdown(rows, config_name, step):
    """The table, and a line about what it is of."""
    lines = ["| | val mIoU | spread | by seed |", "|---|---|---|---|"]
    for row in rows:
        by_seed = ", ".join("{}: {}".format(seed, _score(miou)) for seed, miou in zip(row["seeds"], row["miou"]))
        lines.append("| {} | {} | {} | {} |".format(row["title"], _score(row["mean"]), _score(row["spread"]), by_seed))
    lines += ["", "`{}`, after {} steps; spread: standard deviation over the seeds (n - 1).".format(config_name, step)]
    return "\n".join(lines) + "\n"


def write(rows, runs, config_name, folder):
    """Writes comparison.md and comparison.json, whole or not at all; returns their paths."""
    contents = {
        "comparison.md": markdown(rows, config_name, runs[0].step),
        "comparison.json": json.dumps({"config": config_name, "step": runs[0].step, "variants": rows}, indent=2) + "\n",
    }
    paths = []
    for name, text in contents.items():
        paths.append(os.path.join(folder, name))
        with open(paths[-1] + ".partial", "w") as file:
            file.write(text)
        os.replace(paths[-1] + ".partial", paths[-1])
    return paths


def draw(rows, runs, path, smooth=10):
    """Writes a PNG: a bar a variant with a dot a seed, and the training loss of each variant, mean and range over seeds."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), dpi=110, gridspec_kw={"width_ratios": [1, 1.1]})
    for place, (row, color) in enumerate(zip(rows, COLORS)):
        scores = [score for score in row["miou"] if score is not None]
        left.bar(place, row["mean"] or 0, 0.62, color=color, alpha=0.75)
        across = np.linspace(-0.12, 0.12, len(scores)) if len(scores) > 1 else [0]
        left.plot(place + np.array(across), scores, "o", color="black", markersize=4)
        top = max(scores, default=0)
        left.annotate(_score(row["mean"]) + (" ± {:.3f}".format(row["spread"]) if row["spread"] is not None else ""),
                      (place, top), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=10)
        steps, losses = _losses([run for run in runs if run.variant.name == row["variant"]])
        if len(steps):
            means = [history.running_means(values, smooth) for values in losses]
            steps = history.running_means(steps, smooth)
            right.plot(steps, np.mean(means, axis=0), color=color, linewidth=2, label=row["title"])
            right.fill_between(steps, np.min(means, axis=0), np.max(means, axis=0), color=color, alpha=0.2, linewidth=0)
    left.set_xticks(range(len(rows)), [row["title"].replace(", ", ",\n", 1) for row in rows], fontsize=9)
    left.set(ylabel="validation mIoU")
    left.margins(y=0.15)
    left.set_ylim(bottom=0)
    right.set(xlabel="step", ylabel="training loss")
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=9, loc="best")
    for axis in (left, right):
        axis.grid(axis="y", alpha=0.3)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(w_pad=3)
    figure.savefig(path + ".partial", format="png")
    pyplot.close(figure)
    os.replace(path + ".partial", path)


def _losses(runs):
    """(steps, a row of losses a run) at the steps that every run logged."""
    logged = [dict(history.points(history.read(run.model_dir), "loss")) for run in runs]
    steps = sorted(set.intersection(*map(set, logged))) if logged else []
    return np.array(steps), np.array([[entries[step] for step in steps] for entries in logged])


def _score(value):
    return "-" if value is None else "{:.3f}".format(value)
