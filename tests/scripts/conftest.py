"""A small data set, and a run trained on it, for the tests of the scripts."""

import pytest

from tests.scripts import command


@pytest.fixture
def street(tmp_path):
    """A fresh data set, to be damaged: 4 scenes to train on and 2 to evaluate."""
    return command.draw_streets(tmp_path / "data")


@pytest.fixture(scope="session")
def streets(tmp_path_factory):
    """One data set for all tests that leave it alone."""
    return command.draw_streets(tmp_path_factory.mktemp("streets"))


@pytest.fixture(scope="session")
def trained(streets, tmp_path_factory):
    """A run of 4 steps on two towers: (model_dir, what it printed)."""
    model_dir = str(tmp_path_factory.mktemp("trained") / "run")
    output = command.succeed(
        "train", *command.SMALL, "--num_gpus=2", "--data_dir=" + streets, "--model_dir=" + model_dir
    )
    return model_dir, output
