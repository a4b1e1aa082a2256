"""Draws the curves of several runs into one figure, and prints where each of them is.

    python scripts/compare_runs.py runs/synthetic_pspnet runs/synthetic_plain --output=comparison.png

The loss is shown as it was logged, faintly, and as the mean over --smooth entries; the score is that of every evaluation.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import numpy as np
from absl import flags
from matplotlib import pyplot

from scripts import commandline, history
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
flags.DEFINE_string("output", "comparison.png", "PNG to write.")
flags.DEFINE_integer("smooth", 5, "Logged losses that are averaged into one point.", lower_bound=1)
flags.DEFINE_bool("log_scale", False, "A logarithmic axis for the loss.")


def main(arguments):
    if not arguments:
        raise UsageError("no run named: give the model_dirs of the runs to compare")
    if not os.path.isdir(os.path.dirname(os.path.abspath(FLAGS.output))):
        raise UsageError("--output={}: its folder does not exist".format(FLAGS.output))
    runs = dict(zip(names(arguments), [entries_of(model_dir) for model_dir in arguments]))
    print(table(runs))
    draw(runs, FLAGS.output, FLAGS.smooth, FLAGS.log_scale)
    print("written: {}".format(FLAGS.output))


def names(model_dirs):
    """What runs are called: the ends of their paths, as short as tells them apart."""
    parts = [os.path.abspath(path).split(os.sep) for path in model_dirs]
    if len({tuple(part) for part in parts}) < len(parts):
        raise UsageError("a run is named twice: {}".format(" ".join(model_dirs)))
    for count in range(1, max(map(len, parts)) + 1):
        ends = [os.sep.join(part[-count:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return list(model_dirs)


def entries_of(model_dir):
    entries = history.read(model_dir)
    if not history.points(entries, "loss"):
        raise ValueError("no run to draw in {}: {} holds no losses (train.py writes it)".format(
            model_dir, os.path.join(model_dir, history.FILE_NAME)))
    return entries


def table(runs):
    """Text: a line a run with its last step, its last loss and its last and best score."""
    wide = max(len(name) for name in runs) + 2
    lines = ["{:<{}}{:>9}{:>10}{:>20}{:>26}".format("run", wide, "step", "loss", "last score", "best score")]
    for name, entries in runs.items():
        losses, score = history.points(entries, "loss"), history.score_of(entries)
        scores = history.points(entries, score)
        last = best = "-"
        if scores:
            top = max(scores, key=lambda point: point[1])
            last = "{} {:.4f}".format(history.SCORE_NAMES[score], scores[-1][1])
            best = "{:.4f} at step {}".format(top[1], top[0])
        lines.append("{:<{}}{:>9}{:>10.4f}{:>20}{:>26}".format(name, wide, losses[-1][0], losses[-1][1], last, best))
    return "\n".join(lines)


def draw(runs, path, smooth=5, log_scale=False):
    """Writes a PNG: losses on the left, scores on the right, a colour a run.

    Args:
        runs: dict from name to the entries of a history.
    """
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.6), dpi=110)
    scores = []
    for (name, entries), color in zip(runs.items(), _colors(len(runs))):
        steps, losses = np.transpose(history.points(entries, "loss"))
        left.plot(steps, losses, color=color, alpha=0.25, linewidth=1)
        steps, losses = (history.running_means(values, smooth) for values in (steps, losses))
        left.plot(steps, losses, color=color, linewidth=2, label=name)
        score = history.score_of(entries)
        measured = history.points(entries, score)
        if measured:
            scores.append(history.SCORE_NAMES[score])
            right.plot(*zip(*measured), color=color, marker="o", markersize=4, linewidth=2)
            right.annotate("{:.3f}".format(measured[-1][1]), measured[-1], color=color, xytext=(5, -3),
                           textcoords="offset points", fontsize=9)
    left.set(xlabel="step", ylabel="training loss")
    left.set_yscale("log" if log_scale else "linear")
    if not log_scale:
        left.set_ylim(bottom=0)
    right.set(xlabel="step", ylabel="validation " + (" and ".join(sorted(set(scores))) or "score"), ylim=(0, 1))
    right.margins(x=0.1)
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    columns = min(len(runs), 4)
    rows = -(-len(runs) // columns)
    figure.legend(loc="lower center", ncol=columns, frameon=False)
    figure.tight_layout(rect=(0, 0.02 + 0.05 * rows, 1, 1))
    figure.savefig(path + ".partial", format="png")
    pyplot.close(figure)
    os.replace(path + ".partial", path)


def _colors(count):
    if count <= 10:
        return [pyplot.cm.tab10(k) for k in range(count)]
    return [pyplot.cm.viridis(k / (count - 1)) for k in range(count)]


if __name__ == "__main__":
    commandline.run(main, positional=True)
