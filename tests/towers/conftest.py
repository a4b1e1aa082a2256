"""A watchdog, and no thread may outlive the test that built towers."""

import faulthandler

import pytest
import tensorflow.compat.v1 as tf

from tests.towers import oracles


@pytest.fixture(autouse=True)
def no_hang_and_no_thread_left():
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    assert not oracles.tower_threads()


@pytest.fixture(params=["control_flow_v1", "control_flow_v2"])
def control_flow(request):
    """Both versions of tf.cond and tf.while_loop."""
    before = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if request.param.endswith("v2") else tf.disable_control_flow_v2)()
    yield request.param
    (tf.enable_control_flow_v2 if before else tf.disable_control_flow_v2)()
