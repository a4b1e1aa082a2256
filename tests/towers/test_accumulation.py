"""Gradients of several runs make the update of one large batch."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

RANDOM = np.random.RandomState(0)
BATCH = 12
X, Y = RANDOM.randn(BATCH, 5), RANDOM.randn(BATCH, 2)
IDS = RANDOM.randint(0, 4, [BATCH])  # rows 4 to 6 of the table are never looked up
UPDATES = 6
OPTIMIZERS = {"momentum": lambda: tf.train.MomentumOptimizer(.1, .9), "adam": lambda: tf.train.AdamOptimizer(.1),
              "rmsprop": lambda: tf.train.RMSPropOptimizer(.1, momentum=.5)}


def model(norm):
    def model_fn(x, y, ids):
        w = tf.get_variable("w", [5, 2], tf.float64, tf.ones_initializer())
        table = tf.get_variable("table", [7, 2], tf.float64, tf.zeros_initializer())
        h = tf.matmul(x, w)
        if norm:
            h = towers.sync_bn(h, momentum=.9, name="bn", training=norm == "batch")
        return tf.reduce_mean(tf.square(h + tf.nn.embedding_lookup(table, ids) - y))

    return model_fn


def train(steps, optimizer, num_towers, norm=None, transform=None):
    """All variables after so many updates of `steps` micro-batches each, the losses, and the names in a checkpoint."""
    with tf.Graph().as_default():
        inputs = [tf.placeholder(tf.float64, [BATCH // steps, 5]), tf.placeholder(tf.float64, [BATCH // steps, 2]),
                  tf.placeholder(tf.int64, [BATCH // steps])]
        step = towers.build_train_step(model(norm), towers.split_batch(tuple(inputs), num_towers), optimizer(),
                                       oracles.CPUS[:num_towers], gradient_transform=transform, accumulate_steps=steps)
        with oracles.session() as sess:
            oracles.initialize(sess)
            sess.run(tf.local_variables_initializer())
            for run in range(UPDATES * steps):
                assert sess.run(step.global_step) == run // steps
                rows = slice(run % steps * BATCH // steps, (run % steps + 1) * BATCH // steps)
                before = sess.run(tf.trainable_variables())
                sess.run(step.train_op, dict(zip(inputs, (X[rows], Y[rows], IDS[rows]))))
                if (run + 1) % steps:
                    assert all(np.array_equal(a, b) for a, b in zip(before, sess.run(tf.trainable_variables())))
            return sess.run({v.op.name: v for v in tf.global_variables()})


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("norm", [None, "frozen"])
def test_micro_batches_make_the_update_of_their_whole_batch(name, num_towers, norm):
    whole = train(1, OPTIMIZERS[name], num_towers, norm)
    for steps in (2, 3):
        parts = train(steps, OPTIMIZERS[name], num_towers, norm)
        assert sorted(parts) == sorted(whole)  # the same checkpoint
        for key in whole:
            np.testing.assert_allclose(parts[key], whole[key], rtol=1e-10, atol=1e-12, err_msg=key)


def test_gradient_transform_sees_the_mean_and_acts_once_an_update(control_flow):
    def transform(pairs):
        return [(g if isinstance(g, tf.IndexedSlices) else tf.clip_by_norm(g, .05) + .01 * v, v) for g, v in pairs]

    whole, parts = (train(steps, OPTIMIZERS["momentum"], 2, None, transform) for steps in (1, 3))
    for key in whole:
        np.testing.assert_allclose(parts[key], whole[key], rtol=1e-10, atol=1e-12, err_msg=key)


def test_batch_norm_sees_one_micro_batch_and_its_state_moves_at_every_run():
    parts = train(2, lambda: tf.train.GradientDescentOptimizer(0.), 2, "batch")
    mean = np.zeros(2)
    for run in range(2 * UPDATES):
        rows = slice(run % 2 * BATCH // 2, (run % 2 + 1) * BATCH // 2)
        mean += .1 * (np.dot(X[rows], np.ones([5, 2])).mean(0) - mean)
    np.testing.assert_allclose(parts["bn/moving_mean"], mean, rtol=1e-10)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, None])
def test_a_wrong_number_of_steps_is_refused(steps):
    with pytest.raises(ValueError, match="accumulate_steps is"):
        towers.build_train_step(model(None), [], tf.train.GradientDescentOptimizer(1.), [], accumulate_steps=steps)


def test_a_process_that_was_eager_when_it_began():
    # As a main module that uses TensorFlow before it disables eager execution, where TensorFlow 2 conds are functions.
    program = """
import tensorflow.compat.v1 as tf
getattr(tf.config, "list_physical_devices", tf.config.experimental.list_physical_devices)()
tf.disable_eager_execution()
import towers
step = towers.build_train_step(lambda x: tf.reduce_sum(x * tf.get_variable("w", [], initializer=tf.ones_initializer())),
                               [tf.ones([2])] * 2, tf.train.AdamOptimizer(), ["/cpu:0"] * 2, accumulate_steps=2)
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    for _ in range(4):
        session.run(step.train_op)
    print("step", session.run(step.global_step), sorted(v.op.name for v in tf.global_variables()))
"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    out = subprocess.run([sys.executable, "-c", program], cwd=root, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    said = "step 2 ['beta1_power', 'beta2_power', 'global_step', 'w', 'w/Adam', 'w/Adam_1']\n"
    assert out.stdout == said, out.stderr[-2000:]
