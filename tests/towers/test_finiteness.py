"""A step that is not finite is not applied, and what was first in it is named: on one tower or more, accumulated or not."""

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from towers import session as towers_session

CPUS = oracles.CPUS
CONFIG = tf.ConfigProto(device_count={"CPU": 8}, allow_soft_placement=True)
BATCHES = np.random.RandomState(0).randn(12, 4, 3).astype(np.float32)


def model(x):
    y = tf.nn.elu(towers.sync_bn(towers.layers.dense(x, 5, name="first"), name="norm"))
    rows = tf.gather(tf.get_variable("table", [7, 5]), [0, 2])
    with tf.name_scope("error"):
        return tf.reduce_mean(tf.square(towers.layers.dense(y, 2, name="second") - tf.reduce_sum(rows)), name="mean")


def build(batches=BATCHES, num_towers=2, model_fn=model, **kwargs):
    """A train step over an endless sequence of batches: (the step, the tensor of a batch)."""
    tf.set_random_seed(1)
    data = tf.data.Dataset.from_tensor_slices(batches).repeat()
    x = tf.data.make_one_shot_iterator(data).get_next()
    step = towers.build_train_step(model_fn, towers.split_batch(x, num_towers), tf.train.AdamOptimizer(.1), CPUS[:num_towers],
                                   **kwargs)
    return step, x


def weights():
    """All that an update writes."""
    return {v.op.name: v for v in tf.global_variables() if "moving" not in v.op.name}


def test_the_check_changes_no_bit():
    found = []
    for check in (False, True):
        with tf.Graph().as_default():
            step, _ = build(check_finite=check)
            with tf.Session(config=CONFIG) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(6):
                    session.run(step.train_op)
                found.append(session.run({v.op.name: v for v in tf.global_variables()}))
    assert set(found[0]) == set(found[1])
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)


@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("accumulate_steps", [1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_run_that_is_not_finite_applies_nothing(num_towers, accumulate_steps, value):
    batches = BATCHES.copy()
    batches[5, 3, 1] = value
    step, _ = build(batches, num_towers, accumulate_steps=accumulate_steps, check_finite=True)
    with tf.Session(config=CONFIG) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(5):
            session.run(step.train_op)
        everything = [weights(), tf.local_variables()]
        before = session.run(everything)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(step.train_op)
        assert step.finite_check.failed(caught.value) == "the loss of tower 0"  # sync BN spreads it
        after = session.run(everything)
        for name, value in before[0].items():
            np.testing.assert_array_equal(value, after[0][name], err_msg=name)
        for one, other in zip(before[1], after[1]):
            np.testing.assert_array_equal(one, other)


def test_a_gradient_that_is_not_finite_behind_a_finite_loss_is_not_applied():
    def root(x):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        return tf.sqrt(w) + v * tf.reduce_sum(x)

    step, _ = build(model_fn=root, check_finite=True)
    with tf.Session(config=CONFIG) as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(step.train_op)
        assert step.finite_check.failed(caught.value) == "the averaged gradient of w"
        assert session.run([v.read_value() for v in tf.trainable_variables()]) == [0, 1]


def train(model_dir, batches, max_steps=8, model_fn=model, **kwargs):
    with tf.Graph().as_default():
        step, x = build(batches, model_fn=model_fn, check_finite=True, **kwargs)

        def replay(run):
            return {x: batches[run % len(batches)]}, ["%d-%d.png" % (run, place) for place in range(4)]

        return towers_session.run_training(step, str(model_dir), max_steps, config=CONFIG, save_every=2, replay=replay)


def test_a_run_stops_before_the_update_and_names_the_first_tensor_and_the_examples(tmp_path):
    def breaks(x):
        with tf.name_scope("broken"):
            x = tf.log(x + 100., name="logarithm")
        return model(x)

    batches = BATCHES.copy()
    batches[4, 2, 0] = -1000.  # in tower 1
    with pytest.raises(towers_session.NonFiniteLossError) as caught:
        train(tmp_path, batches, model_fn=breaks)
    told = str(caught.value)
    assert "step 5 " in told and "tensor tower_1/broken/logarithm:0" in told and "1 nan, 0 inf of 6 values" in told
    assert "4-0.png, 4-1.png, 4-2.png and 1 more" in told and "\n" not in told
    with open(str(tmp_path / "nonfinite.json")) as file:
        record = json.load(file)
    assert record["step"] == 5 and record["tower"] == 1 and record["first_tensor"] == "tower_1/broken/logarithm:0"
    assert record["examples"] == ["4-%d.png" % place for place in range(4)]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-4")
    for name, _ in tf.train.list_variables(str(tmp_path)):
        assert np.isfinite(tf.train.load_variable(str(tmp_path), name)).all(), name
    batches[4] = BATCHES[4]
    assert train(tmp_path, np.roll(batches, -4, 0)).step == 8  # and goes on once the data are mended


def test_a_gradient_behind_a_finite_forward_pass_is_named_with_its_variable(tmp_path):
    def root(x):
        first = towers.layers.dense(x, 2, name="first")
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        return tf.sqrt(w) + tf.reduce_mean(first)

    with pytest.raises(towers_session.NonFiniteLossError, match="the gradient of w of tower 0: 0 nan, 1 inf of 1 values"):
        train(tmp_path, BATCHES, model_fn=root)


def test_the_right_one_of_accumulated_batches_is_named(tmp_path):
    batches = BATCHES.copy()
    batches[5, 0, 0] = np.nan  # run 5 counted from 0: the second of update 3
    with pytest.raises(towers_session.NonFiniteLossError, match="step 3 .*5-0.png"):
        train(tmp_path, batches, accumulate_steps=2)
