"""Checkpoints between TensorFlow versions: one interpreter writes, another restores on another number of towers.

    python tests/checkpoint_exchange.py write FOLDER     trains 3 steps on 2 towers, saves, and notes losses to come
    python tests/checkpoint_exchange.py read FOLDER      restores on 3 towers, and must find the same losses
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
import tensorflow.compat.v1 as tf

import towers


def model(x):
    for name in ("first", "second"):
        x = towers.layers.conv2d(x, 6, 3, padding="same", use_bias=False, name=name)
        x = tf.nn.softplus(towers.sync_bn(x, momentum=None if name == "first" else .9, name=name + "_bn"))
    x = towers.layers.dense(tf.reduce_mean(x, [1, 2]), 2)
    return towers.weighted_mean(tf.square(x - 1.), tf.ones_like(x))


def run(num_towers, checkpoint, steps, restore):
    """The losses of `steps` steps from a checkpoint or, not to `restore`, from initial values that are saved after."""
    images = tf.constant(np.random.RandomState(0).randn(6, 8, 8, 3), tf.float32)
    devices = towers.tower_devices(num_towers, "cpu")
    step = towers.build_train_step(model, towers.split_batch(images, num_towers), tf.train.AdamOptimizer(.01), devices)
    saver = tf.train.Saver()
    with tf.Session(config=towers.session_config(devices)) as session:
        session.run(tf.global_variables_initializer())
        if restore:
            saver.restore(session, checkpoint)
        losses = [float(session.run([step.train_op, step.loss])[1]) for _ in range(steps)]
        if not restore:
            saver.save(session, checkpoint)
            losses = [float(session.run([step.train_op, step.loss])[1]) for _ in range(steps)]
        return losses


def main(action, folder):
    tf.disable_eager_execution()
    checkpoint, losses = os.path.join(folder, "model.ckpt"), os.path.join(folder, "losses.json")
    if action == "write":
        os.makedirs(folder, exist_ok=True)
        with open(losses, "w") as file:
            json.dump(run(2, checkpoint, 3, restore=False), file)
        return
    with open(losses) as file:
        expected = json.load(file)
    found = run(3, checkpoint, 3, restore=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    print("TensorFlow %s restores %s: losses %s" % (tf.__version__, folder, found))


if __name__ == "__main__":
    main(*sys.argv[1:])
