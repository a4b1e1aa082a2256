"""The classifier is trained as a user does it: it learns, on any number of towers alike, and goes on where it stopped."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

from configs import cifar10_resnet  # noqa: E402
from scripts import classifier, classifier_configuration  # noqa: E402
from scripts.commandline import UsageError  # noqa: E402
from tests.inputs import cifar10_files  # noqa: E402
from tests.scripts.command import failed, run, run_all, succeeded  # noqa: E402

STEPS = 40
SMALL = ["train_classifier", "--device_type=cpu", "--max_steps={}".format(STEPS), "--config.model.units=1",
         "--config.model.width=8", "--config.batch_size=32", "--config.optimizer.learning_rate=0.02",
         "--config.log.every_steps=1", "--config.checkpoint.every_steps=1000", "--config.input.num_parallel=2"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return cifar10_files.write(tmp_path_factory.mktemp("pictures"), batch=64, test=100)[0]


@pytest.fixture(scope="module")
def runs(pictures, tmp_path_factory):
    """Results of runs and their folders, by name: on 1 and on 2 towers, and one of 2 towers that stopped at 7."""
    base = tmp_path_factory.mktemp("runs")
    folders = {name: str(base / name) for name in ("one", "two", "stopped")}
    commands = {name: SMALL + ["--data_dir=" + pictures, "--model_dir=" + folder,
                               "--num_gpus={}".format(1 if name == "one" else 2)] for name, folder in folders.items()}
    commands["stopped"] = [a for a in commands["stopped"] if not a.startswith("--max_steps")] + ["--max_steps=7"]
    return {name: (result, folders[name]) for name, result in run_all(commands).items()}


def losses(folder):
    with open(os.path.join(folder, "history.jsonl")) as file:
        entries = [json.loads(line) for line in file]
    return {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}


def test_two_towers_have_the_losses_of_one_and_both_learn(runs):
    one, two = (losses(runs[name][1]) for name in ("one", "two") if succeeded(runs[name][0]))
    assert sorted(one) == sorted(two) == list(range(1, STEPS + 1))
    assert abs(one[1] - two[1]) < 1e-5
    assert max(abs(one[step] - two[step]) for step in one) < 1e-2  # rounding, after 40 steps
    for name in ("one", "two"):
        with open(os.path.join(runs[name][1], "metrics.json")) as file:
            metrics = json.load(file)
        assert metrics["accuracy"] > 0.5  # chance is .1
        matrix = np.array(metrics["confusion"])
        assert metrics["accuracy"] == np.trace(matrix) / 100 and matrix.sum() == metrics["num_images"] == 100
        assert (matrix.sum(axis=1) == 10).all() and list(metrics["per_class_accuracy"])[0] == "airplane"
        assert "accuracy {:.4f}".format(metrics["accuracy"]) in runs[name][0][1]


def test_a_run_goes_on_where_it_stopped_on_another_number_of_towers(pictures, runs):
    folder = runs["stopped"][1]
    arguments = [a for a in SMALL if not a.startswith("--max_steps")] + ["--data_dir=" + pictures, "--model_dir=" + folder]
    output = succeeded(run(*arguments, "--num_gpus=1", "--max_steps=10"))
    assert "resumed    at step 7" in output
    whole, resumed = losses(runs["two"][1]), losses(folder)
    assert sorted(resumed) == list(range(1, 11))
    assert max(abs(whole[step] - resumed[step]) for step in resumed) < 1e-3


def test_what_cannot_be_done_is_said_in_one_line_and_nothing_is_written(pictures, runs, tmp_path):
    new = "--model_dir={}".format(tmp_path / "new")
    results = run_all({
        "no data": SMALL + [new],
        "elsewhere": SMALL + [new, "--data_dir={}".format(tmp_path)],
        "another": SMALL + ["--data_dir=" + pictures, "--model_dir=" + runs["one"][1], "--config.model.norm=plain"],
    })
    for name, words in (("no data", "--data_dir"), ("elsewhere", "data_batch_1"), ("another", "model.norm: sync -> plain")):
        assert words in failed(results[name]), name
    assert not os.path.exists(str(tmp_path / "new"))


def test_the_rate_falls_at_each_boundary_and_decay_is_on_what_it_should_be_on():
    config = cifar10_resnet.get_config()
    config.optimizer.boundaries, config.optimizer.decay_on = (3, 5), "kernels"
    with tf.Graph().as_default(), tf.Session() as session:
        rate, step = classifier.learning_rate(config), tf.train.get_or_create_global_step()
        rates = [_at(session, rate, step, k) for k in range(7)]
        np.testing.assert_allclose(rates, [0.1, 0.1, 0.1, 0.01, 0.01, 0.001, 0.001], rtol=1e-6)
        kernel, gamma = (tf.get_variable(name, initializer=2.0) for name in ("a/kernel", "a/gamma"))
        pairs = classifier.gradient_transform(config)([(tf.constant(1.0), kernel), (tf.constant(1.0), gamma)])
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run([g for g, _ in pairs]), [1 + 5e-4 * 2, 1], rtol=1e-6)


def _at(session, rate, step, number):
    step.load(number, session)
    return session.run(rate)


@pytest.mark.parametrize("name, value", [
    ("batch_size", 0), ("num_classes", 100), ("dataset", "cityscapes"), ("input.pad", -1), ("input.mean", (1.0, 2.0)),
    ("model.units", 0), ("model.norm", "group"), ("optimizer.boundaries", (5, 3)), ("optimizer.factor", 0.0),
    ("optimizer.learning_rate", float("inf")), ("eval_split", "val"), ("eval.batch_size", 2.5)])
def test_a_value_that_no_run_can_have_is_refused_by_name_in_one_line(name, value):
    config = cifar10_resnet.get_config()
    *parents, last = name.split(".")
    part = config
    for parent in parents:
        part = part[parent]
    with part.ignore_type():
        part[last] = value
    with pytest.raises(UsageError) as error:
        classifier_configuration.check(config)
    assert name in str(error.value) and "\n" not in str(error.value)
