"""The classifier is trained as a user does it: it learns, on any number of towers alike, and goes on where it stopped."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import cifar10_resnet  # noqa: E402
from inputs import cifar10  # noqa: E402
from scripts import classifier, classifier_configuration  # noqa: E402
from scripts.commandline import UsageError  # noqa: E402
from tests.inputs import cifar10_files  # noqa: E402
from tests.scripts.command import failed, run, succeeded  # noqa: E402

STOP, STEPS = 20, 32
SMALL = {"model.units": 1, "model.width": 8, "batch_size": 32, "optimizer.learning_rate": 0.02, "log.every_steps": 1,
         "checkpoint.every_steps": 1000, "input.num_parallel": 2, "eval.batch_size": 40}


def command(pictures, model_dir, num_towers, steps):
    return ["train_classifier", "--device_type=cpu", "--data_dir=" + pictures, "--model_dir=" + model_dir,
            "--num_gpus={}".format(num_towers), "--max_steps={}".format(steps),
            *("--config.{}={}".format(name, value) for name, value in SMALL.items())]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return cifar10_files.write(tmp_path_factory.mktemp("pictures"), batch=64, test=100)[0]


@pytest.fixture(scope="module")
def trained_twice(pictures, tmp_path_factory):
    """(folder, output) of a run that two towers began and one tower took up at step `STOP`."""
    folder = str(tmp_path_factory.mktemp("runs") / "run")
    succeeded(run(*command(pictures, folder, 2, STOP)))
    return folder, succeeded(run(*command(pictures, folder, 1, STEPS)))


def losses_on_one_tower(pictures):
    """The losses of the same run without interruption, from the parts that the script puts together."""
    config = cifar10_resnet.get_config()
    config.update_from_flattened_dict(SMALL)
    devices = towers.tower_devices(1, "cpu")
    with tf.Graph().as_default():
        tf.set_random_seed(config.seed)
        data = cifar10.train_dataset(cifar10.open_split(pictures, "train"), 32, config.seed, **config.input.to_dict())
        batch = tf.data.make_one_shot_iterator(data).get_next()
        optimizer = tf.train.MomentumOptimizer(classifier.learning_rate(config), 0.9)
        step = towers.build_train_step(classifier.training_model(config), [(batch["image"], batch["label"])], optimizer,
                                       devices, gradient_transform=classifier.gradient_transform(config))
        with tf.Session(config=towers.session_config(devices)) as session:
            session.run(tf.global_variables_initializer())
            return [session.run([step.loss, step.train_op])[0] for _ in range(STEPS)]


def test_two_towers_then_one_have_the_losses_of_one_and_learn(pictures, trained_twice):
    folder, output = trained_twice
    assert "resumed    at step {}".format(STOP) in output
    with open(os.path.join(folder, "history.jsonl")) as file:
        entries = [json.loads(line) for line in file]
    logged = {entry["step"]: entry["loss"] for entry in entries if "loss" in entry}
    whole = losses_on_one_tower(pictures)
    assert sorted(logged) == list(range(1, STEPS + 1))
    assert abs(logged[1] - whole[0]) < 1e-5
    assert max(abs(logged[step] - whole[step - 1]) for step in logged) < 1e-2  # rounding, after 32 steps
    assert [entry["step"] for entry in entries if "accuracy" in entry] == [STOP, STEPS]

    with open(os.path.join(folder, "metrics.json")) as file:
        metrics = json.load(file)
    matrix = np.array(metrics["confusion"])
    assert metrics["accuracy"] > 0.4 and metrics["step"] == STEPS  # chance is .1
    assert metrics["accuracy"] == np.trace(matrix) / 100 and matrix.sum() == metrics["num_images"] == 100
    assert (matrix.sum(axis=1) == 10).all() and list(metrics["per_class_accuracy"])[0] == "airplane"
    assert "accuracy {:.4f}".format(metrics["accuracy"]) in output


def test_files_that_are_not_there_are_said_in_one_line_and_nothing_is_written(tmp_path):
    model_dir = str(tmp_path / "new")
    assert "data_batch_1.bin" in failed(run(*command(str(tmp_path), model_dir, 1, 2)))
    assert not os.path.exists(model_dir)


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
