"""Several runs in one figure and one table: the numbers are the histories' own, and each run has its curve."""

import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import history  # noqa: E402
from tests.scripts.command import failed, run_all, succeeded  # noqa: E402

BLUE, ORANGE = (31, 119, 180), (255, 127, 14)


def a_run(folder, height, score="miou", best=30):
    os.makedirs(folder)
    entries = history.History(str(folder))
    for step in range(10, 61, 10):
        entries.add(step=step, loss=height / step, learning_rate=0.1)
        entries.add(step=step, **{score: 0.5 - abs(step - best) / 1000})
    return str(folder)


def test_the_table_and_the_figure_hold_every_run(tmp_path):
    first = a_run(tmp_path / "a" / "pspnet", 60)
    second = a_run(tmp_path / "b" / "pspnet", 120, score="accuracy", best=50)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "history.jsonl").write_text('{"step": 1, "lo')
    figure = str(tmp_path / "figure.png")
    results = run_all({
        "both": ["compare_runs", first, second, "--output=" + figure],
        "cut": ["compare_runs", tmp_path / "cut"],
        "twice": ["compare_runs", first, first + os.sep],
    })
    rows = {line.split()[0]: line.split()[1:] for line in succeeded(results["both"]).splitlines() if "pspnet " in line}
    # The shortest ends of the paths that tell the runs apart, and the last and best of each.
    assert rows[os.path.join("a", "pspnet")] == ["60", "1.0000", "mIoU", "0.4700", "0.5000", "at", "step", "30"]
    assert rows[os.path.join("b", "pspnet")] == ["60", "2.0000", "accuracy", "0.4900", "0.5000", "at", "step", "50"]
    assert count(figure, BLUE) > 300 and count(figure, ORANGE) > 300
    for name, words in (("cut", "cut"), ("twice", "named twice")):
        assert words in failed(results[name]), name


def count(path, color):
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return (np.abs(pixels - color).max(axis=-1) < 12).sum()
