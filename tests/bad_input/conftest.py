"""The server that runs scripts, a data set and a run to spoil, each made once."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from tests.scripts import command  # noqa: E402


@pytest.fixture(scope="package")
def run(tmp_path_factory):
    """A function of a script's name and its arguments to (exit code, standard output, standard error)."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    folder = tmp_path_factory.mktemp("server")
    with open(str(folder / "errors"), "w") as errors:
        process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(__file__), "fork_server.py")], cwd=str(folder), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)

    def ask(script, *arguments):
        process.stdin.write(json.dumps([script] + [str(argument) for argument in arguments]) + "\n")
        process.stdin.flush()
        return tuple(json.loads(process.stdout.readline()))

    yield ask
    process.stdin.close()
    process.wait()


@pytest.fixture(scope="package")
def streets(tmp_path_factory):
    """Three scenes to train on and one to evaluate."""
    return command.draw_streets(tmp_path_factory.mktemp("streets"), num_train=3, num_val=1)


@pytest.fixture(scope="package")
def trained(run, streets, tmp_path_factory):
    """The folder of a run of one step."""
    folder = str(tmp_path_factory.mktemp("trained") / "run")
    command.succeeded(run(*command.train("--data_dir=" + streets, "--model_dir=" + folder, "--max_steps=1")))
    return folder
