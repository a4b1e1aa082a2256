"""train.py as a user runs it: what it prints, what it writes, how it resumes and stops."""

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402
from PIL import Image  # noqa: E402

from tests.scripts.command import failed, run, run_all, start, succeeded, train  # noqa: E402


def history(model_dir):
    with open(os.path.join(model_dir, "history.jsonl")) as file:
        return [json.loads(line) for line in file]


def losses(model_dir):
    return [entry["loss"] for entry in history(model_dir) if "loss" in entry]


def test_a_run_says_what_it_is_before_its_first_step(trained):
    model_dir, output = trained
    before = output[: output.index("step 1/")]
    for part in (
        "towers     2: /cpu:0 /cpu:1",
        "4 in total, 2 a tower",
        "6 images to train on, 3 to evaluate",
    ):
        assert part in before
    # Each batch norm has a moving mean and a moving variance, written once a step whatever the number of towers.
    stored = tf.train.list_variables(model_dir)
    layers = len([name for name, _ in stored if name.endswith("/moving_mean")])
    assert layers > 10 and "{} layers (0 plain), {} update ops".format(layers, 2 * layers) in before
    trainable = [shape for name, shape in stored if name + "/Momentum" in dict(stored)]
    parameters = sum(int(np.prod(shape)) for shape in trainable)
    assert "{} trainable with {:,} parameters".format(len(trainable), parameters) in before


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


@pytest.fixture(scope="module")
def runs(streets, trained, tmp_path_factory):
    """Runs beside the trained one: a dict of (result, model_dir)."""
    top = tmp_path_factory.mktemp("runs")
    folders = {name: str(top / name) for name in ("whole", "resumed", "dry", "nan")}
    shutil.copytree(trained[0], folders["resumed"])
    more = {
        "whole": ["--num_gpus=2", "--max_steps=7"],
        "resumed": ["--num_gpus=4", "--max_steps=7", "--config.log.every_steps=2", "--config.eval.flip=False"],
        "dry": ["--num_gpus=2", "--dry_run"],
        "nan": ["--num_gpus=2", "--config.optimizer.learning_rate=1e30"],
    }
    results = run_all({
        name: train("--data_dir=" + streets, "--model_dir=" + folders[name], *arguments)
        for name, arguments in more.items()})
    return {name: (results[name], folders[name]) for name in more}


def test_the_same_command_gives_the_same_losses_to_the_bit(runs, trained):
    succeeded(runs["whole"][0])
    assert losses(runs["whole"][1])[:4] == losses(trained[0])


def test_resuming_on_other_towers_goes_on_where_one_run_would(runs):
    output = succeeded(runs["resumed"][0])
    assert "resumed    at step 4" in output and "1 a tower" in output
    whole, resumed = ({entry["step"]: entry["loss"] for entry in history(runs[name][1]) if "loss" in entry}
                      for name in ("whole", "resumed"))
    assert sorted(resumed) == [1, 2, 3, 4, 5, 6, 7]  # the first of a run, every second, the last
    assert resumed[5] == pytest.approx(whole[5], abs=1e-4), "the same examples, weights and dropout"
    assert resumed[7] == pytest.approx(whole[7], abs=1e-2)


def test_a_finished_run_is_scored_again_and_not_trained(streets, runs):
    folder = runs["whole"][1]
    output = succeeded(run(*train("--data_dir=" + streets, "--model_dir=" + folder, "--max_steps=7")))
    assert "nothing to train" in output and "step 7: mIoU" in output


def test_a_dry_run_prints_the_same_and_writes_nothing(runs, trained):
    result, folder = runs["dry"]
    output = succeeded(result)
    assert output[: output.index("dry run")] == trained[1][: trained[1].index("step 1/")]
    assert not os.path.exists(folder)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_tensor(runs):
    result, model_dir = runs["nan"]
    told = failed(result)
    assert ("nan" in told or "inf" in told) and re.search(r"tensor tower_\d/[^ ]*:\d", told), told
    with open(os.path.join(model_dir, "nonfinite.json")) as file:
        assert len(json.load(file)["examples"]) == 4


def test_sigterm_saves_ends_well_and_says_at_which_step(streets, tmp_path):
    model_dir = str(tmp_path / "run")
    process = start(*train("--data_dir=" + streets, "--model_dir=" + model_dir, "--max_steps=100000",
                          "--config.eval.every_steps=100000"))
    for line in process.stdout:
        if line.startswith("step      3/"):
            process.send_signal(signal.SIGTERM)
            break
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors[-2000:]
    saved = tf.train.load_checkpoint(model_dir).get_tensor("global_step")
    assert saved >= 3 and "stopped by SIGTERM at step {}:".format(saved) in output


def test_a_terminal_gets_a_bar_with_loss_rate_and_speed(streets, tmp_path):
    pty = pytest.importorskip("pty", reason="terminals of this kind are Unix's")
    import fcntl
    import struct
    import termios

    terminal, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    arguments = train("--data_dir=" + streets, "--model_dir={}".format(tmp_path / "run"), "--num_gpus=1")
    process = start(*arguments, stdout=other_end)
    os.close(other_end)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the other end was closed
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors[-2000:]
    text = shown.decode()
    assert "4/4" in text and "loss " in text and "lr " in text and "images/s" in text and "mIoU" in text
    assert "step 1/4" not in text


def test_accumulated_and_half_precision_runs(streets, tmp_path):
    arguments = {"accumulated": "--config.accumulate_steps=2", "half": "--config.precision=bfloat16"}
    results = run_all({name: train("--data_dir=" + streets, "--model_dir={}".format(tmp_path / name), argument,
                                   "--num_gpus=2", "--max_steps=3") for name, argument in arguments.items()})
    assert "4 in total, 1 a tower, in each of 2 runs that make a step" in succeeded(results["accumulated"])
    assert "4 in total, 2 a tower, bfloat16 activations" in succeeded(results["half"])
    stored = [dict(tf.train.list_variables(str(tmp_path / name))) for name in arguments]
    assert stored[0] == stored[1]
    for name in arguments:
        assert [entry["step"] for entry in history(str(tmp_path / name)) if "loss" in entry] == [1, 2, 3]
        assert all(np.isfinite(loss) for loss in losses(str(tmp_path / name)))
