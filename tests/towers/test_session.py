"""The session loop: stops, saves and resumes so that a run in pieces is the run in one piece."""

import glob
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from towers import session as towers_session

CPUS = oracles.CPUS
CONFIG = tf.ConfigProto(device_count={"CPU": 8}, allow_soft_placement=True)


def model(x):
    """A model with batch norm and dropout: all the state that a resumed run must find again."""
    y = towers.layers.dropout(towers.sync_bn(towers.layers.dense(x, 4), momentum=.9), .3)
    tf.summary.scalar("of_the_model", tf.reduce_mean(y))
    error = tf.reduce_mean(tf.square(y - 1.), 1)
    return towers.weighted_mean(error, tf.ones_like(error))


def train(model_dir, max_steps, num_towers=2, model_fn=model, accumulate_steps=1, **kwargs):
    """Runs to `max_steps` in a graph of its own: the end, the losses, the final variables."""
    losses, values = [], {}

    class Recorder(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(step.loss)

        def after_run(self, run_context, run_values):
            losses.append(float(run_values.results))

        def end(self, session):
            values.update(session.run({v.op.name: v for v in tf.global_variables()}))

    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.constant(np.random.RandomState(0).randn(8, 3), tf.float32)
        step = towers.build_train_step(model_fn, towers.split_batch(x, num_towers), tf.train.MomentumOptimizer(.1, .9),
                                       CPUS[:num_towers], accumulate_steps=accumulate_steps)
        kwargs["hooks"] = [Recorder()] + list(kwargs.get("hooks", ()))
        end = towers_session.run_training(step, str(model_dir), max_steps, config=CONFIG, **kwargs)
    return end, losses, values


def steps_kept(model_dir):
    return sorted(int(path.rsplit("-", 1)[1][:-len(".index")]) for path in glob.glob(str(model_dir) + "/model.ckpt-*.index"))


def test_a_run_in_pieces_on_other_numbers_of_towers_is_the_run_in_one(tmp_path):
    end, losses, values = train(tmp_path / "whole", 7)
    assert end == (7, None) and len(losses) == 7
    pieces = []
    for until, num_towers in ((3, 2), (5, 3), (7, 1)):
        end, more, resumed = train(tmp_path / "pieces", until, num_towers)
        assert end.step == until
        pieces += more
    np.testing.assert_allclose(pieces, losses, rtol=1e-4)
    assert set(resumed) == set(values)
    for name, value in values.items():
        np.testing.assert_allclose(resumed[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    end, more, _ = train(tmp_path / "pieces", 7)
    assert end == (7, None) and more == []


def test_hooks_see_one_run_an_update_where_gradients_accumulate(tmp_path):
    end, losses, values = train(tmp_path, 5, accumulate_steps=3, save_every=2)
    assert end == (5, None) and len(losses) == 5
    assert steps_kept(tmp_path) == [2, 4, 5]
    assert values["global_step"] == 5 and not [name for name in values if "accumulate" in name]
    end, losses, values_again = train(tmp_path, 7, accumulate_steps=3)
    whole = train(tmp_path / "whole", 7, accumulate_steps=3)
    assert len(losses) == 2 and whole[1][5:] == losses  # dropout's masks, which count runs, go on as well
    for name, value in whole[2].items():
        np.testing.assert_array_equal(values_again[name], value, err_msg=name)


def test_a_loss_in_any_run_of_an_update_is_checked(tmp_path):
    def breaks(x):
        run = towers.current_tower()._build.global_step  # counts runs: updates 0 and 1 have 0, 1 and 2, 3
        loss = model(x)
        return loss + tf.where_v2(tf.equal(tf.cast(run, tf.int64), 2), np.float32(np.nan), 0.)

    with pytest.raises(towers_session.NonFiniteLossError, match="at step 1 "):
        train(tmp_path, 4, model_fn=breaks, accumulate_steps=2)


def test_the_latest_checkpoints_are_kept(tmp_path):
    train(tmp_path, 9, save_every=2, keep=2)
    assert steps_kept(tmp_path) == [8, 9]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-9")


def test_a_moved_folder_resumes(tmp_path):
    train(tmp_path / "here", 2)
    (tmp_path / "here").rename(tmp_path / "there")
    end, losses, _ = train(tmp_path / "there", 3)
    assert end.step == 3 and len(losses) == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_stops_and_names_its_tensor(tmp_path, value):
    def failing(x):
        bad = tf.cast(tf.equal(tf.train.get_global_step(), 4), tf.float32)
        wrong = tf.where(bad > 0, tf.constant(value, tf.float32), 0.)
        loss = model(x)
        return tf.add(loss, wrong if towers.current_tower().index == 1 else 0., name="failing_loss")

    with pytest.raises(towers_session.NonFiniteLossError, match=r"tower 1.*tower_1/failing_loss") as error:
        train(tmp_path, 9, model_fn=failing, save_every=2)
    assert isinstance(error.value, ValueError) and "\n" not in str(error.value)
    assert steps_kept(tmp_path) == [0, 2, 4]
    for name, _ in tf.train.list_variables(str(tmp_path / "model.ckpt-4")):
        assert np.isfinite(tf.train.load_variable(str(tmp_path / "model.ckpt-4"), name)).all()


def test_an_error_in_a_hook_leaves_the_last_checkpoint_as_it_was(tmp_path):
    class Fails(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            if run_context.session.run(tf.train.get_global_step()) == 3:
                raise RuntimeError("hook")

    with pytest.raises(RuntimeError, match="hook"):
        train(tmp_path, 9, save_every=3, hooks=[Fails()])
    assert steps_kept(tmp_path) == [0]


def test_summaries_hold_the_loss_and_tower_0s_own(tmp_path):
    train(tmp_path, 5, summary_every=2, batch_size=8)
    found = {}
    for path in glob.glob(str(tmp_path) + "/events*"):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append(event.step)
    assert any(tag.startswith("tower_0/") for tag in found) and not any(tag.startswith("tower_1") for tag in found)
    assert found["loss"] == found["tower_0/of_the_model"] and len(found["loss"]) >= 2
    assert "images_per_second" in found


def test_the_best_checkpoint_is_kept_over_resumed_runs(tmp_path):
    def scored(scores):
        kept = []

        class Scores(tf.train.SessionRunHook):
            def begin(self):
                self.best = towers_session.BestCheckpoint(str(tmp_path))

            def after_run(self, run_context, run_values):
                step = int(run_context.session.run(tf.train.get_global_step()))
                kept.append(self.best(run_context.session, step, scores[step]))

        train(tmp_path, max(scores), hooks=[Scores()])
        return kept

    assert scored({1: .3, 2: .5, 3: float("nan"), 4: .4}) == [True, True, False, False]
    assert scored({5: .45, 6: .6, 7: .6}) == [False, True, False]
    assert towers_session.BestCheckpoint.best(
        type("Record", (), {"_record": str(tmp_path / "best" / "best.json")})()) == {"step": 6, "score": .6}
    paths = glob.glob(str(tmp_path / "best" / "*.index"))
    assert [os.path.basename(path) for path in paths] == ["model.ckpt-6.index"]
    assert tf.train.load_variable(tf.train.latest_checkpoint(str(tmp_path / "best")), "global_step") == 6
    assert 7 in steps_kept(tmp_path)


RUN = """
import sys, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
import towers
from towers import session

class Slow(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        print("stepped", flush=True)
        time.sleep(.05)

step = towers.build_train_step(lambda x: tf.reduce_sum(tf.square(tf.get_variable("w", [3]) - x)),
                               [tf.zeros([3])] * 2, tf.train.GradientDescentOptimizer(.01), ["/cpu:0"] * 2)
end = session.run_training(step, sys.argv[1], 100000, hooks=[Slow()])
print("ended at %d by %s" % end, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends(tmp_path, number):
    environment = dict(os.environ, PYTHONPATH=os.getcwd(), TF_CPP_MIN_LOG_LEVEL="2")
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, universal_newlines=True, env=environment)
    try:
        begun, lines = time.time(), []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("stepped"):
                break
            assert time.time() - begun < 120
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, "".join(lines) + rest
    ended = [line for line in rest.splitlines() if line.startswith("ended")][0]
    step = int(ended.split()[2])
    assert ended.endswith("by " + signal.Signals(number).name)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-%d" % step) and 0 < step < 1000


def test_handlers_of_signals_are_put_back(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    train(tmp_path, 1)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    """A finite loss with an infinite gradient: sqrt at 0. What is saved must be fit to resume from."""
    def failing(x):
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        return tf.sqrt(w) + 0. * tf.reduce_sum(x)

    with pytest.raises(towers_session.NonFiniteLossError):
        train(tmp_path, 9, model_fn=failing, save_every=1)
    for step in steps_kept(tmp_path):
        assert np.isfinite(tf.train.load_variable(str(tmp_path / "model.ckpt-%d") % step, "w")), step
