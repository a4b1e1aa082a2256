"""Device strings, sessions under which they exist, and batches split over them."""

import collections

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from absl import logging

import towers
from tests.towers import oracles
from towers import versions


@pytest.fixture
def gpus(monkeypatch):
    """Makes TensorFlow see as many GPUs as told."""
    return lambda count: monkeypatch.setattr(versions, "visible_gpus", lambda: ["GPU"] * count)


def test_without_gpus_towers_get_logical_cpus_and_one_log_line(gpus, monkeypatch):
    gpus(0)
    lines = []
    monkeypatch.setattr(logging, "info", lambda *args: lines.append(args))
    assert towers.tower_devices(3) == ["/cpu:0", "/cpu:1", "/cpu:2"]
    assert len(lines) == 1


def test_gpus_are_taken_where_visible_unless_cpus_are_forced(gpus):
    gpus(2)
    assert towers.tower_devices(2) == towers.tower_devices(2, "gpu") == ["/gpu:0", "/gpu:1"]
    assert towers.tower_devices(4, "cpu") == ["/cpu:%d" % i for i in range(4)]


@pytest.mark.parametrize("visible,device_type", [(2, None), (2, "gpu"), (0, "gpu")])
def test_too_few_gpus_is_an_error_naming_both_counts(gpus, visible, device_type):
    gpus(visible)
    with pytest.raises(ValueError, match=r"5 towers.*\b%d GPU" % visible):
        towers.tower_devices(5, device_type)


@pytest.mark.parametrize("num_towers,device_type", [(0, None), (-1, None), (2.0, None), (True, None), ("2", None), (1, "tpu")])
def test_wrong_requests_are_refused(num_towers, device_type):
    with pytest.raises(ValueError, match="wanted"):
        towers.tower_devices(num_towers, device_type)


def test_the_devices_exist_under_the_session_config():
    config = towers.session_config(towers.tower_devices(5, "cpu"))
    with tf.Session(config=config) as sess:
        names = [device.name for device in sess.list_devices() if device.device_type == "CPU"]
    assert len(names) == 5 and names[4].endswith("CPU:4")


def test_fields_of_the_session_config_win():
    config = towers.session_config(["/cpu:1"], allow_soft_placement=False, device_count={"CPU": 7},
                                   inter_op_parallelism_threads=3)
    assert (config.allow_soft_placement, config.inter_op_parallelism_threads) == (False, 3)
    assert config.device_count["CPU"] == 7
    assert towers.session_config(["/gpu:0"]).gpu_options.allow_growth
    assert not towers.session_config(
        ["/gpu:0"], gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=.5)).gpu_options.allow_growth


@pytest.mark.parametrize("known", [True, False])
def test_a_batch_splits_as_numpy_splits_it(known):
    for batch in range(1, 8):
        for num_towers in range(1, batch + 1):
            x = np.arange(batch * 6).reshape(batch, 3, 2)
            tensor = tf.placeholder_with_default(x, x.shape if known else [None, 3, 2])
            parts = towers.split_batch(tensor, num_towers)
            expected = np.array_split(x, num_towers)
            assert len(parts) == num_towers
            for part, value in zip(parts, expected):
                assert part.shape.as_list() == ([len(value)] if known else [None]) + [3, 2]
            if batch in (5, 7):
                for got, value in zip(oracles.evaluate(parts), expected):
                    np.testing.assert_array_equal(got, value)


def test_structures_are_split_leaf_by_leaf():
    Pair = collections.namedtuple("Pair", "image label")
    batch = {"pair": Pair(tf.ones([5, 2]), tf.range(5)), "list": [np.arange(5.), (tf.zeros([5, 1, 1]),)]}
    parts = towers.split_batch(batch, 2)
    assert [part["pair"].label.shape.as_list() for part in parts] == [[3], [2]]
    assert type(parts[1]["pair"]) is Pair and type(parts[1]["list"][1]) is tuple
    first, second = oracles.evaluate([parts[0]["list"][0], parts[1]["pair"].label])
    assert first.tolist() == [0, 1, 2] and second.tolist() == [3, 4]


def test_an_unknown_batch_smaller_than_the_towers_leaves_the_last_ones_empty():
    x = tf.placeholder(tf.float32, [None, 2])
    got = oracles.evaluate(towers.split_batch(x, 4), {x: np.ones([2, 2])})
    assert [part.shape for part in got] == [(1, 2), (1, 2), (0, 2), (0, 2)]


def test_an_unknown_rank_is_split_too():
    x = tf.placeholder(tf.float32, None)
    got = oracles.evaluate(towers.split_batch(x, 2), {x: np.ones([3, 2, 2])})
    assert [part.shape for part in got] == [(2, 2, 2), (1, 2, 2)]


def test_gradients_flow_back_to_the_whole_batch():
    x = tf.constant(np.arange(10.).reshape(5, 2))
    parts = towers.split_batch(x, 3)
    got = oracles.evaluate(tf.gradients([(i + 1) * tf.reduce_sum(part) for i, part in enumerate(parts)], x)[0])
    np.testing.assert_array_equal(got[:, 0], [1, 1, 2, 2, 3])


@pytest.mark.parametrize("batch,match", [
    (lambda: tf.ones([2, 3]), "batch of 2"), (lambda: tf.constant(1.), "scalar"),
    (lambda: (tf.ones([4, 2]), tf.ones([5])), "batch sizes differ"), (lambda: {}, "at least one tensor"),
    (lambda: tf.SparseTensor([[0, 0]], [1.], [4, 4]), "SparseTensor")])
def test_what_cannot_be_split_is_refused(batch, match):
    with pytest.raises(ValueError, match=match):
        towers.split_batch(batch(), 3)
