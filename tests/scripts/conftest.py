"""A small data set, and a run trained on it, for the tests of the scripts."""

import pytest

from tests.scripts import command


@pytest.fixture(scope="session")
def streets(tmp_path_factory):
    """A data set of six scenes to train on and three to evaluate, in the Cityscapes layout."""
    return command.draw_streets(tmp_path_factory.mktemp("streets"))


@pytest.fixture(scope="session")
def trained(streets, tmp_path_factory):
    """A run of 4 steps on two towers: (model_dir, what it printed)."""
    model_dir = str(tmp_path_factory.mktemp("trained") / "run")
    arguments = ["--num_gpus=2", "--data_dir=" + streets, "--model_dir=" + model_dir]
    return model_dir, command.succeeded(command.run(*command.train(*arguments)))
