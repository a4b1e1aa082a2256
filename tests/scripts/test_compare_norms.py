"""The comparison of batch norms: its arithmetic, its runs, and that what is finished is not run again."""

import json
import os
import re
import statistics

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import history, norm_comparison  # noqa: E402
from tests.scripts.command import SMALL, failed, run, succeeded  # noqa: E402


class Variant:
    def __init__(self, name):
        self.name = name

    def title(self, batch_size):
        return "{} of {}".format(self.name, batch_size)


def test_mean_and_spread_are_those_of_the_seeds(tmp_path):
    scores = {"sync": [0.45, 0.47, 0.40], "plain": [0.1, 0.2, None], "one": [0.3]}
    runs = []
    for name, values in scores.items():
        variant = Variant(name)
        for seed, score in enumerate(values):
            folder = tmp_path / "{}{}".format(name, seed)
            folder.mkdir()
            entries = history.History(str(folder))
            for step in range(1, 20):
                entries.add(step=step, loss=3.0 / step)
            runs.append(norm_comparison.Run(variant, seed, str(folder), 20, score, 4))
    rows = {row["variant"]: row for row in norm_comparison.summary(runs)}
    assert rows["sync"]["mean"] == pytest.approx(0.44)
    assert rows["sync"]["spread"] == pytest.approx(np.std(scores["sync"], ddof=1))
    assert rows["plain"]["mean"] == pytest.approx(0.15) and rows["plain"]["miou"] == [0.1, 0.2, None]
    assert rows["plain"]["spread"] == pytest.approx(statistics.stdev([0.1, 0.2])) and rows["one"]["spread"] is None
    paths = norm_comparison.write(list(rows.values()), runs, "camvid", str(tmp_path))
    with open(paths[0]) as file:
        lines = file.read().splitlines()
    assert lines[2] == "| sync of 4 | 0.440 | 0.036 | 0: 0.450, 1: 0.470, 2: 0.400 |"
    assert lines[3] == "| plain of 4 | 0.150 | 0.071 | 0: 0.100, 1: 0.200, 2: - |"
    assert lines[4] == "| one of 4 | 0.300 | - | 0: 0.300 |"
    figure = str(tmp_path / "figure.png")
    norm_comparison.draw(list(rows.values()), runs, figure)
    assert min(Image.open(figure).size) > 300


def test_runs_are_train_runs_and_what_is_finished_is_not_run_again(streets, tmp_path):
    config = next(argument for argument in SMALL if argument.startswith("--config="))
    small = [argument for argument in SMALL if argument.startswith("--config.")]
    base = ["compare_norms", config, "--data_dir=" + streets, "--runs_dir={}".format(tmp_path), "--device_type=cpu",
            "--num_towers=2", "--seeds=3", "--variants=plain", "--max_steps=1"]
    first = succeeded(run(*base, "--", *small))
    model_dir = str(tmp_path / "plain_seed3")
    with open(os.path.join(model_dir, "config.json")) as file:
        config = json.load(file)
    assert (config["seed"], config["model"]["norm"], config["model"]["width"]) == (3, "plain", 4)
    with open(os.path.join(model_dir, "train.log")) as file:
        log = file.read()
    assert re.search(r"towers +2:", log) and "step 1: mIoU" in log
    with open(os.path.join(model_dir, "metrics.json")) as file:
        miou = json.load(file)["miou"]
    assert "| 2 towers x 2 images, each its own statistics | {:.3f} | - | 3: {:.3f} |".format(miou, miou) in first
    with open(str(tmp_path / "comparison.json")) as file:
        assert json.load(file)["variants"][0]["miou"] == [miou]

    again = succeeded(run(*base, "--", *small))
    assert "finished before" in again and again.split("\n\n")[-1] == first.split("\n\n")[-1]
    with open(os.path.join(model_dir, "train.log")) as file:
        assert file.read() == log
    other = failed(run(*base, "--", *small[:-1]))
    assert "plain_seed3 was run with other arguments" in other and small[-1] in other
