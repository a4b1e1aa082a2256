"""Wrong use ends in one clear line and exit code 1 or 2, and nothing is written."""

import os
import shutil

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from tests.scripts.command import draw_streets, failed, run_all, train  # noqa: E402

# What is given besides a good data set and a fresh model_dir, and what the line must say.
WRONG_FLAGS = {
    "more towers than GPUs": (["--device_type=gpu", "--num_gpus=99"], ["99", "GPU"]),
    "a batch smaller than the towers": (["--num_gpus=3", "--config.batch_size=2"], ["batch_size 2", "3 towers"]),
    "a training crop the network cannot take": (["--config.input.crop_size=49,66"], ["input.crop_size", "65", "73"]),
    "a test crop the network cannot take": (["--config.eval.crop_size=49,66"], ["eval.crop_size", "65", "73"]),
    "a batch that its runs do not divide": (
        ["--config.batch_size=6", "--config.accumulate_steps=4"], ["batch_size 6", "4 runs"]),
    "aggregation on a GPU for towers on CPUs": (["--aggregation=gpu"], ["--aggregation=gpu", "/cpu:0", "wanted GPUs"]),
    "NCCL for towers on CPUs": (["--aggregation=nccl", "--num_gpus=2"], ["--aggregation=nccl", "two or more GPUs"]),
    "an unknown precision": (["--config.precision=half"], ["config.precision", "half", "bfloat16"]),
    "a misspelt setting": (["--config.batch_siz=2"], ["batch_siz", "batch_size"]),
    "a setting inside a number": (["--config.batch_size.half=2"], ["no setting 'batch_size.half'", "of type int"]),
    "a setting of another type": (["--config.batch_size=two"], ["batch_size", "two"]),
    "a value out of range": (["--config.input.flip_probability=2"], ["input.flip_probability", "2.0"]),
    "an unknown flag": (["--num_gpu=2"], ["num_gpu"]),
    "an argument that is no flag": (["2"], ["'2'"]),
    "no such configuration": (["--config=nowhere.py"], ["nowhere.py"]),
}

# What is in the file of the configuration, and what the line must say.
WRONG_CONFIGURATIONS = {
    "no Python": ("def get_config(:\n", ["no Python.py, line 1", "SyntaxError"]),
    "an import that fails": ("import nowhere_to_be_found\n", ["an import that fails.py, line 1", "nowhere_to_be_found"]),
    "an error in get_config": ("def get_config():\n    return {}['lost']\n", ["an error in get_config.py, line 2", "lost"]),
    "no get_config": ("x = 1\n", ["get_config()"]),
    "no settings": ("def get_config():\n    return 3\n", ["no setting", "of type int"]),
}


def paths(root, number):
    name = "town_000000_{:06}".format(number)
    return [
        os.path.join(root, kind, "train", "town", "{}_{}.png".format(name, suffix))
        for kind, suffix in (("leftImg8bit", "leftImg8bit"), ("gtFine", "gtFine_labelIds"))
    ]


def without_label(root):
    image, label = paths(root, 1)
    os.remove(label)
    return [image, label]


def unknown_id(root):
    _, label = paths(root, 2)
    values = np.array(Image.open(label))
    values[5, 5] = 77
    Image.fromarray(values).save(label)
    return [label, "77"]


def another_size(root):
    _, label = paths(root, 3)
    Image.fromarray(np.full([48, 60], 7, np.uint8)).save(label)
    return [label, "60x48", "64x48"]


def truncated(root):
    image, _ = paths(root, 0)
    with open(image, "rb") as file:
        content = file.read()
    with open(image, "wb") as file:
        file.write(content[: len(content) // 2])
    return [image]


def no_images(root):
    shutil.rmtree(root)
    return [os.path.join(root, "leftImg8bit", "train"), "_leftImg8bit.png"]


WRONG_DATA = {damage.__name__: damage for damage in (without_label, unknown_id, another_size, truncated, no_images)}


@pytest.fixture(scope="module")
def refusals(streets, tmp_path_factory):
    """Runs every case, two at a time: a dict of (result, words the line must hold, model_dir)."""
    top, commands, expected = tmp_path_factory.mktemp("wrong"), {}, {}
    given = dict(WRONG_FLAGS)
    for case, (text, words) in WRONG_CONFIGURATIONS.items():
        file = top / (case + ".py")
        file.write_text(text)
        given[case] = (["--config={}".format(file)], words)
    for number, (case, (arguments, words)) in enumerate(given.items()):
        model_dir = str(top / "flags{}".format(number))
        commands[case] = train("--data_dir=" + streets, "--model_dir=" + model_dir, *arguments)
        expected[case] = (words, model_dir)
    for case, damage in WRONG_DATA.items():
        root, model_dir = draw_streets(top / case), str(top / (case + "_run"))
        expected[case] = (damage(root), model_dir)
        commands[case] = train("--data_dir=" + root, "--model_dir=" + model_dir)
    results = run_all(commands)
    return {case: (results[case],) + expected[case] for case in commands}


@pytest.mark.parametrize("case", list(WRONG_FLAGS) + list(WRONG_CONFIGURATIONS) + list(WRONG_DATA))
def test_train_refuses_in_one_line_and_writes_nothing(refusals, case):
    result, words, model_dir = refusals[case]
    told = failed(result)
    for word in words:
        assert word in told
    assert not os.path.exists(model_dir)


@pytest.fixture(scope="module")
def misused(streets, trained, tmp_path_factory):
    """A finished run that is used wrongly, in every way at once: results, and the folder for predictions."""
    top = tmp_path_factory.mktemp("misused")
    model, data = "--model_dir=" + trained[0], "--data_dir=" + streets
    (top / "broken.png").write_text("no picture")
    (top / "file").write_text("")
    out = "--output_dir={}".format(top / "out")
    results = run_all({
        "configuration": train(
            data, model, "--config.batch_size=6", "--config.optimizer.momentum=0.8", "--max_steps=6"),
        "network": train(data, model, "--config.model.width=6", "--allow_config_change", "--max_steps=6"),
        "file": train(data, "--model_dir={}".format(top / "file")),
        "no model_dir": ["evaluate", data],
        "no run": ["evaluate", data, "--model_dir={}".format(top)],
        "no checkpoint": ["evaluate", data, model, "--checkpoint=elsewhere"],
        "no image": ["predict", model, out],
        "broken image": ["predict", model, out, top / "broken.png"],
    })
    return results, top


def test_a_model_dir_of_another_configuration_lists_what_differs(misused):
    told = failed(misused[0]["configuration"])
    assert "batch_size: 4 -> 6" in told and "optimizer.momentum: 0.9 -> 0.8" in told
    assert "--allow_config_change" in told


def test_a_checkpoint_of_another_network_lists_what_differs(misused):
    told = failed(misused[0]["network"])
    assert "another network" in told and "resnet/" in told and "[" in told


def test_a_refused_run_leaves_the_model_as_it_was(misused, trained):
    with open(os.path.join(trained[0], "config.json")) as file:
        assert '"width": 4' in file.read()
    with open(os.path.join(trained[0], "history.jsonl")) as file:
        assert len(file.readlines()) == 5  # four steps and one evaluation


def test_evaluate_and_predict_say_what_is_missing(misused):
    results, top = misused
    assert "not a folder" in failed(results["file"])
    assert "--model_dir is missing" in failed(results["no model_dir"])
    assert "config.json" in failed(results["no run"]) and str(top) in failed(results["no run"])
    assert "no checkpoint at elsewhere" in failed(results["no checkpoint"])
    assert "no image" in failed(results["no image"])
    assert str(top / "broken.png") in failed(results["broken image"])
    assert not (top / "out").exists()
