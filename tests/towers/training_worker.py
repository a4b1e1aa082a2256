"""One worker of the runs that `test_workers` starts: trains through `run_training`, and tells what it did.

    python -m tests.towers.training_worker HOSTS TASK_INDEX MODEL_DIR MAX_STEPS SETTINGS

SETTINGS is JSON: num_towers, batch, accumulate_steps, seconds a step, facts, wait, timeout, port, nan_at (worker, step). The
last line on standard output is JSON: step, signal, losses, and the variables' bytes in hexadecimal.
"""

import json
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from towers import session as towers_session


def model(worker):
    """The model function, whose weights begin apart on each worker, to be given the chief's."""

    def model_fn(x, key):
        initializer = tf.glorot_uniform_initializer(seed=5 + worker)
        y = towers.layers.dense(x, 4, kernel_initializer=initializer)
        y = towers.layers.dropout(towers.sync_bn(y, momentum=.9), .3)
        error = tf.reduce_mean(tf.square(y - 1.), 1) + key  # 0 or NaN
        return towers.weighted_mean(error, tf.ones_like(error))

    return model_fn


class Recorder(tf.train.SessionRunHook):
    """Tells of every step as it ends, and slows it down."""

    def __init__(self, step, seconds):
        self._step, self._seconds, self.losses, self.values = step, seconds, [], {}

    def after_create_session(self, session, coord):
        print("begins at", int(session.run(self._step.global_step)), flush=True)

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._step.loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))
        print("step", len(self.losses), flush=True)
        time.sleep(self._seconds)

    def end(self, session):
        self.values = session.run({v.op.name: v for v in tf.global_variables()})


def build_step(devices, settings, cluster=None):
    """The step of the towers on `devices`, which are all or, with a cluster, a worker's."""
    index, count = (cluster.task_index, cluster.num_workers) if cluster else (0, 1)
    whole = np.random.RandomState(0).randn(settings.get("batch", 8), 3).astype(np.float32)
    own = slice(index * len(devices), (index + 1) * len(devices))
    tf.set_random_seed(1)
    global_step = tf.train.get_or_create_global_step()
    worker, at = settings.get("nan_at", (-1, 0))
    broken = tf.logical_and(tf.equal(worker, index), tf.equal(tf.cast(global_step, tf.int32), at))
    key = tf.where_v2(broken, np.float32(np.nan), np.float32(0))
    inputs = towers.split_batch(tf.constant(whole), count * len(devices))[own]
    return towers.build_train_step(model(index), [(part, key) for part in inputs], tf.train.MomentumOptimizer(.1, .9), devices,
                                   cluster=cluster, accumulate_steps=settings.get("accumulate_steps", 1))


def main(hosts, task_index, model_dir, max_steps, settings):
    settings = json.loads(settings)
    cluster = towers.Cluster(hosts.split(","), int(task_index))
    cluster.start_heartbeat(settings.get("port"), settings.get("timeout", 30))
    facts = dict({"towers": settings["num_towers"]}, **settings.get("facts", {}))
    cluster.join(facts, settings.get("wait", 60), lambda line: print(line, flush=True))
    devices = towers.tower_devices(settings["num_towers"], "cpu")
    with tf.Graph().as_default():
        step = build_step(devices, settings, cluster)
        recorder = Recorder(step, settings.get("seconds", 0))
        end = towers_session.run_training(step, model_dir, int(max_steps), config=cluster.session_config(devices),
                                          hooks=[recorder], save_every=settings.get("save_every", 1000), cluster=cluster)
    print(json.dumps({"step": end.step, "signal": end.signal, "losses": recorder.losses,
                      "values": {name: np.asarray(value).tobytes().hex() for name, value in recorder.values.items()}}))


if __name__ == "__main__":
    tf.disable_eager_execution()
    main(*sys.argv[1:])
