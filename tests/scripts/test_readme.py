"""The README does what it says: its Python runs, its commands are the scripts' own, its make targets exist."""

import os
import re
import shlex
import subprocess
import sys

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.inputs import cifar10_files  # noqa: E402
from tests.models import pretrained_names  # noqa: E402
from tests.scripts.command import ROOT, SMALL, run_all, succeeded  # noqa: E402


def blocks(language):
    with open(os.path.join(ROOT, "README.md")) as file:
        return re.findall(r"^```{}\n(.*?)^```".format(language), file.read(), re.DOTALL | re.MULTILINE)


def commands():
    lines = [line for block in blocks("bash") for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    assert len(lines) >= 5
    return lines


def test_the_python_of_the_readme_runs_and_learns():
    environment = dict(os.environ, PYTHONPATH=ROOT)
    result = subprocess.run([sys.executable, "-c", "\n".join(blocks("python"))], env=environment, timeout=300,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert result.returncode == 0, result.stderr[-3000:]
    first, last = map(float, re.search(r"loss ([\d.]+) -> ([\d.]+)", result.stdout).groups())
    assert last < 0.5 * first


def test_the_model_function_of_the_readme_is_about_15_lines():
    source = "\n".join(blocks("python"))
    function = re.search(r"^def model_fn.*?(?=^\S(?!ef))", source, re.DOTALL | re.MULTILINE).group()
    assert len([line for line in function.splitlines() if line.strip()]) <= 16


def test_the_commands_of_the_readme_run(streets, trained, tmp_path):
    """As they stand but for the size of the network, and where data and models are; training as a dry run."""
    small = [argument for argument in SMALL if not argument.startswith(("--config=", "--max_steps", "--config.batch"))]
    replaced = {"/data/cityscapes": streets, "runs/cityscapes_pspnet50": trained[0],
                "runs/synthetic_pspnet": trained[0],
                "--weights=resnet50_v2.pth": "--weights=" + pretrained_names.write(tmp_path / "weights", "semseg_init"),
                "--output=pretrained/semseg50": "--output={}".format(tmp_path / "imported"),
                "--config.init_checkpoint=pretrained/semseg50": "--config.init_checkpoint=" + trained[0],
                "/data/cifar-10-batches-bin": cifar10_files.write(tmp_path / "cifar", batch=20, test=10)[0],
                "--output_dir=predictions": "--output_dir={}".format(tmp_path / "predictions"),
                "--output_dir=submission": "--output_dir={}".format(tmp_path / "submission"),
                " submission ": " {} ".format(tmp_path / "submission"), "--split=test": "--split=val",
                "--image_size=713,713": "--image_size=49,65"}
    jobs, afterwards = {}, {}
    for line in commands():
        if line.split()[0] == "make":
            continue
        for name, value in replaced.items():
            line = line.replace(name, value)
        python, script, *arguments = shlex.split(line)
        assert python == "python" and script.startswith("scripts/"), line
        arguments = [os.path.join(ROOT, a) if a.startswith("configs/") else a for a in arguments]
        arguments = [re.sub(r"^--config=", "--config=" + ROOT + os.sep, a) for a in arguments]
        if script == "scripts/train.py":
            arguments += small + ["--config.dataset=cityscapes", "--data_dir=" + streets, "--dry_run",
                                  "--model_dir={}".format(tmp_path / "run")]
        elif script == "scripts/train_classifier.py":
            arguments += ["--device_type=cpu", "--dry_run", "--model_dir={}".format(tmp_path / "classifier")]
        if script == "scripts/export.py":
            arguments += ([a for a in small if a.startswith("--config.")] if "--measure" in arguments else
                          ["--output={}".format(tmp_path / "saved_model")])
        looks_at_another = script == "scripts/check_submission.py"
        (afterwards if looks_at_another else jobs)[line] = [script[len("scripts/"):-len(".py")]] + arguments
    for line, result in list(run_all(jobs).items()) + list(run_all(afterwards).items()):
        output = succeeded(result)
        told = ("dry run", "mIoU", "labelIds", "sync layers", "written: ", " 0 fault(s)", "folded")
        assert any(word in output for word in told), line


def test_the_make_targets_of_the_readme_exist():
    targets = {line.split()[1] for line in commands() if line.split()[0] == "make"}
    assert targets == {"train", "test"}
    for target in targets:
        result = subprocess.run(["make", "--dry-run", "--directory", ROOT, target], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["README.md", "BUILD.md"])
def test_paths_named_in_the_documents_exist(name):
    with open(os.path.join(ROOT, name)) as file:
        text = file.read()
    named = set(re.findall(r"\b((?:configs|scripts|inputs|models|towers|tests)/[\w/]+\.py)\b", text))
    assert named
    for path in named:
        assert os.path.exists(os.path.join(ROOT, path)), path
