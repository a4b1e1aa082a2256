"""What every test starts from: graph mode, an empty default graph, quiet TensorFlow.

The libraries flip no global switch themselves, so this file does what a user's main module would.
Real photographs are found through the environment variable TOWERS_CAMVID; what needs them skips without it.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_eager_execution()


@pytest.fixture(autouse=True)
def empty_graph():
    """Each test builds into a default graph of its own."""
    tf.reset_default_graph()
    yield


@pytest.fixture(scope="session")
def camvid_root():
    """Folder of real street photographs in the Cityscapes layout, from the environment."""
    root = os.environ.get("TOWERS_CAMVID")
    if not root or not os.path.isdir(root):
        pytest.skip("TOWERS_CAMVID does not name a folder of photographs in the Cityscapes layout")
    return root
