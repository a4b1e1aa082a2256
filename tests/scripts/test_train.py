"""train.py as a user runs it: what it prints, what it writes, how it resumes and stops."""

import json
import os
import signal

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402
from PIL import Image  # noqa: E402

from tests.scripts.command import SMALL, start, succeed  # noqa: E402


def history(model_dir):
    with open(os.path.join(model_dir, "history.jsonl")) as file:
        return [json.loads(line) for line in file]


def losses(model_dir):
    return [entry["loss"] for entry in history(model_dir) if "loss" in entry]


def test_a_run_says_what_it_is_before_its_first_step(trained):
    _, output = trained
    before = output[: output.index("step 1/")]
    for part in (
        "towers     2: /cpu:0 /cpu:1",
        "4 in total, 2 a tower",
        "6 images to train on, 3 to evaluate",
    ):
        assert part in before
    # thin_resnet and PSPNet normalise in 24 places: a moving mean and a moving variance each, written once a step.
    assert "24 layers (0 plain), 48 update ops" in before
    trainable = 24 * 2 + 24 + 2 * 2  # gammas and betas; kernels before them; two classifiers
    assert "{} trainable with".format(trainable) in before


def test_a_run_logs_every_step_with_loss_rate_and_time_left(trained):
    _, output = trained
    lines = [line for line in output.splitlines() if line.startswith("step ") and "loss" in line]
    assert [line.split()[1] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]
    for word in ("loss", "lr", "images/s", "left"):
        assert word in lines[2]
    assert float(lines[0].split()[5]) == 0.01  # the first step at the full learning rate
    assert np.isclose(float(lines[2].split()[5]), 0.01 * (1 - 2 / 8) ** 0.9, rtol=5e-3)  # of config.max_steps


def test_a_run_writes_metrics_pictures_curve_configuration_and_summaries(trained):
    model_dir, output = trained
    with open(os.path.join(model_dir, "metrics.json")) as file:
        metrics = json.load(file)
    assert metrics["step"] == 4 and metrics["num_images"] == 3
    assert (
        0 <= metrics["miou"] <= 1
        and 0 <= metrics["pixel_accuracy"] <= 1
        and 0 <= metrics["mean_accuracy"] <= 1
    )
    present = [value for value in metrics["per_class_iou"].values() if value is not None]
    assert len(metrics["per_class_iou"]) == 19 and metrics["per_class_iou"]["road"] is not None
    assert np.isclose(np.mean(present), metrics["miou"])
    assert "mIoU {:.4f}".format(metrics["miou"]) in output
    pictures = sorted(os.listdir(os.path.join(model_dir, "pictures")))
    assert pictures == ["town_000000_000100.png", "town_000000_000101.png"]
    assert Image.open(os.path.join(model_dir, "pictures", pictures[0])).size[0] > 3 * 64
    assert Image.open(os.path.join(model_dir, "curve.png")).size[0] > 400
    with open(os.path.join(model_dir, "config.json")) as file:
        assert json.load(file)["model"]["width"] == 4
    events = [name for name in os.listdir(model_dir) if "tfevents" in name]
    tags = {
        value.tag
        for name in events
        for event in tf.train.summary_iterator(os.path.join(model_dir, name))
        for value in event.summary.value
    }
    assert {"loss", "learning_rate"} <= tags and any("image_truth_prediction" in tag for tag in tags)
    assert not [name for name in os.listdir(model_dir) if name.endswith(".partial")]


def test_a_checkpoint_has_no_trace_of_towers(trained):
    names = [name for name, _ in tf.train.list_variables(trained[0])]
    assert names and not [name for name in names if "tower" in name.lower()]
    assert "resnet/" in " ".join(names) and "pspnet/head/logits/kernel" in names


def test_resuming_on_other_towers_goes_on_where_one_run_would(streets, tmp_path):
    common = SMALL + ["--data_dir=" + streets, "--config.loss.mean=global", "--config.model.dropout=0.0"]
    whole, parts = str(tmp_path / "whole"), str(tmp_path / "parts")
    succeed("train", *common, "--num_gpus=2", "--model_dir=" + whole, "--max_steps=6")
    succeed("train", *common, "--num_gpus=2", "--model_dir=" + parts, "--max_steps=3")
    again = succeed(
        "train",
        *common,
        "--num_gpus=4",
        "--model_dir=" + parts,
        "--max_steps=6",
        "--config.log.every_steps=2",
        "--config.eval.flip=False",
    )
    assert "at step 3" in again and "1 a tower" in again
    one = {e["step"]: e["loss"] for e in history(whole) if "loss" in e}
    two = {e["step"]: e["loss"] for e in history(parts) if "loss" in e}
    assert sorted(two) == [1, 2, 3, 4, 6]
    assert [one[s] for s in (1, 2, 3)] == [two[s] for s in (1, 2, 3)], "the same command gives the same bits"
    assert two[4] == pytest.approx(one[4], abs=1e-3) and two[6] == pytest.approx(one[6], abs=1e-2)
    done = succeed("train", *common, "--num_gpus=1", "--model_dir=" + parts, "--max_steps=6")
    assert "nothing to train" in done and "mIoU" in done


def test_a_dry_run_prints_the_same_and_writes_nothing(streets, trained, tmp_path):
    model_dir = tmp_path / "run"
    output = succeed(
        "train",
        *SMALL,
        "--num_gpus=2",
        "--data_dir=" + streets,
        "--model_dir={}".format(model_dir),
        "--dry_run",
    )
    assert output[: output.index("dry run")] == trained[1][: trained[1].index("step 1/")]
    assert not model_dir.exists()


def test_sigterm_saves_ends_well_and_says_at_which_step(streets, tmp_path):
    model_dir = str(tmp_path / "run")
    process = start(
        "train",
        *SMALL,
        "--num_gpus=1",
        "--data_dir=" + streets,
        "--model_dir=" + model_dir,
        "--max_steps=100000",
        "--config.eval.every_steps=100000",
    )
    for line in process.stdout:
        if line.startswith("step 3/") or line.startswith("step      3/"):
            process.send_signal(signal.SIGTERM)
            break
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors[-2000:]
    stopped = [line for line in output.splitlines() if line.startswith("stopped by SIGTERM at step ")]
    assert stopped, output
    saved = tf.train.load_checkpoint(model_dir).get_tensor("global_step")
    assert saved >= 3 and "at step {}".format(saved) in stopped[0]


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_tensor(streets, tmp_path):
    from tests.scripts.command import fail

    told = fail(
        "train",
        *SMALL,
        "--num_gpus=2",
        "--data_dir=" + streets,
        "--model_dir=" + str(tmp_path / "run"),
        "--config.optimizer.learning_rate=1e30",
    )
    assert "nan" in told.lower() or "inf" in told.lower()
    assert "tensor" in told and ":0" in told
