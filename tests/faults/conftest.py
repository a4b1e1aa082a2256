"""The data of the runs that are to be broken."""

import pytest

from tests.inputs import cifar10_files
from tests.scripts import command


@pytest.fixture(scope="session")
def streets(tmp_path_factory):
    """A data set of six scenes to train on and three to evaluate, in the Cityscapes layout."""
    return command.draw_streets(tmp_path_factory.mktemp("streets"))


@pytest.fixture(scope="session")
def small_pictures(tmp_path_factory):
    """Files of CIFAR-10's binary version with few pictures."""
    return str(cifar10_files.write(tmp_path_factory.mktemp("pictures"), batch=16, test=20)[0])
