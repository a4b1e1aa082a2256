"""The session loop: runs the train step until the last step, a signal or a loss that is not finite.

A `tf.train.MonitoredTrainingSession` with its parts in an order that keeps checkpoints sound: the loss is checked first,
then come the caller's hooks, then summaries, and what is saved last has passed them all. A run resumes from the latest
checkpoint in its folder, whatever the number of towers.
"""

import collections
import json
import math
import os
import signal
import threading
import time

import tensorflow.compat.v1 as tf
from absl import logging

from towers import lockstep, nonfinite, saving
from towers.nonfinite import NonFiniteLossError

TrainingEnd = collections.namedtuple("TrainingEnd", "step signal")
TrainingEnd.__doc__ = """How a run ended: after which step, and the name of the signal that stopped it or None."""


def run_training(train_step, model_dir, max_steps, config=None, save_every=1000, keep=3, hooks=(), summary_every=100,
                 summaries=None, batch_size=None, replay=None, cluster=None):
    """Runs `train_step` from the latest checkpoint in `model_dir`, or the initial values, to `max_steps`.

    Saves every `save_every` steps and at the end. SIGTERM and SIGINT end the run after the running step, with a
    checkpoint; a second SIGINT interrupts at once. On any error the last checkpoint stays as it was.

    With a cluster every worker calls this alike. The chief alone restores and writes, and gives the others its values, so
    that they need no `model_dir`. A signal to any worker ends all after one and the same step; what ends one otherwise ends
    all: see `heartbeat`.

    Args:
      train_step: a `TrainStep`.
      model_dir: folder for checkpoints and TensorBoard events; made where missing.
      max_steps: the global step to stop at; a run that has reached it takes no step.
      config: a `tf.ConfigProto` (from `session_config`, or the cluster's).
      save_every: steps between checkpoints.
      keep: how many of the latest checkpoints to keep.
      hooks: `tf.train.SessionRunHook`s, called after the loss was checked and before anything is saved.
        One with an attribute `interrupted` finds a function there that says whether a signal has come: for those that
        take long.
      summary_every: steps between summaries: the loss, what the model of tower 0 added, `summaries`, and images/s.
      summaries: a further summary tensor, or None.
      batch_size: images a step over all towers, for the summary of images/s; None for steps/s.
      replay: for a step with `check_finite` that fails: a function of a run's number, counted from this start of the run
        (from 0), which returns a feed_dict that gives the step the run's batch again, and the names of its examples. With
        it the first tensor that is not finite is found, and the names go into model_dir/nonfinite.json.
      cluster: the `Cluster` that the step was built with. Unless it has been joined (`Cluster.join`), this does so.

    Returns:
      A `TrainingEnd`.

    Raises:
      NonFiniteLossError: a tower's loss or (with `check_finite`, and before it is applied) a gradient is NaN or infinite,
        or a weight is when it would be saved.
      SaveError: a checkpoint cannot be written.
    """
    saver = saving.CheckpointSaver(max_to_keep=keep, save_relative_paths=True)
    scaffold = tf.train.Scaffold(saver=saver)
    tf.summary.scalar("loss", train_step.loss)
    in_graph = {summary.name: summary for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)}
    summary_op = tf.summary.merge(list(in_graph.values()) + ([] if summaries is None else [summaries]))
    step_after = _after(train_step)
    several = cluster is not None and cluster.num_workers > 1
    if several and cluster.joined is None:
        cluster.join({"the number of towers": len(train_step.tower_losses), "max_steps": max_steps})
    heartbeat = cluster.heartbeat if several else None
    stop = StopOnSignal(heartbeat)
    for hook in hooks:
        if hasattr(hook, "interrupted"):
            hook.interrupted = lambda: stop.signal is not None or stop.reason is not None
    finite = FiniteLossHook(train_step)
    all_hooks = [lockstep.StartAlike(cluster)] if several else []
    all_hooks += [finite] + list(hooks)
    writers = [
        tf.train.SummarySaverHook(save_steps=summary_every, output_dir=model_dir, summary_op=summary_op),
        RateHook(model_dir, summary_every, batch_size),
        tf.train.CheckpointSaverHook(model_dir, save_steps=save_every, scaffold=scaffold,
                                     listeners=[FiniteWeightsListener()]),
    ]
    all_hooks += [] if several and not cluster.is_chief else writers
    all_hooks += [tf.train.StopAtStepHook(last_step=max_steps), stop]
    ending_together = lockstep.ending_together(heartbeat)
    with ending_together, stop, _session(cluster if several else None, model_dir, scaffold, all_hooks, config) as session:
        step = session.run_step_fn(lambda step_context: step_context.session.run(train_step.global_step))
        with nonfinite.explained(train_step, session, model_dir, lambda: finite.runs, replay):
            while step < max_steps and not session.should_stop() and stop.may_start():
                for _ in range(train_step.accumulate_steps - 1):  # hooks see the last of the runs that make an update
                    session.run_step_fn(finite.run_without_hooks)
                _, step = session.run([train_step.train_op, step_after])
    if several:
        cluster.leave()
    return TrainingEnd(int(step), stop.reason)


def _session(cluster, model_dir, scaffold, hooks, config):
    if cluster is not None:
        return lockstep.session(cluster, model_dir, scaffold, hooks, config)
    return tf.train.MonitoredTrainingSession(
        checkpoint_dir=model_dir, scaffold=scaffold, hooks=hooks, config=config, save_checkpoint_secs=None,
        save_checkpoint_steps=None, save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None)


def _after(train_step):
    """The global step, read after the train op."""
    with tf.control_dependencies([train_step.train_op]):
        return tf.identity(train_step.global_step.read_value())


class FiniteLossHook(tf.train.SessionRunHook):
    """Raises `NonFiniteLossError`, naming the tensor, when a tower's loss is NaN or infinite.

    A float16 step is skipped then, so only one with nothing left to scale down is an error.
    """

    def __init__(self, train_step):
        self._train_step = train_step
        self._fetches = [train_step.tower_losses, [] if train_step.loss_scale is None else train_step.loss_scale]
        self.runs = 0  # how many runs of the step there were

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context, run_values):
        self._check(run_context.session, *run_values.results)

    def run_without_hooks(self, step_context):
        """For `run_step_fn`: one run of the step, checked, that no hook sees."""
        _, (losses, scale) = step_context.session.run([self._train_step.train_op, self._fetches])
        self._check(step_context.session, losses, scale)

    def _check(self, session, losses, scale):
        self.runs += 1
        if self._train_step.loss_scale is not None and scale > 1:
            return
        for index, (tensor, value) in enumerate(zip(self._train_step.tower_losses, losses)):
            if not math.isfinite(value):
                raise NonFiniteLossError(
                    "the loss of tower %d is %s at step %d (tensor %s); the last checkpoint is from before: lower the "
                    "learning rate or check the data"
                    % (index, value, int(session.run(self._train_step.global_step)), tensor.name))


class FiniteWeightsListener(tf.train.CheckpointSaverListener):
    """Raises `NonFiniteLossError`, naming the variable, before a weight that is NaN or infinite would be saved.

    The loss of a step is finite where only its gradient is not: the weights then are broken one step before the loss is.
    """

    def begin(self):
        weights = [variable for variable in tf.trainable_variables() if variable.dtype.base_dtype.is_floating]
        self._finite = {variable.op.name: tf.reduce_all(tf.is_finite(variable)) for variable in weights}

    def before_save(self, session, global_step_value):
        for name, finite in sorted(session.run(self._finite).items()):
            if not finite:
                raise NonFiniteLossError(
                    "the variable %s is not finite at step %d, though the losses were; the last checkpoint is from "
                    "before: look for a gradient that is not finite, or lower the learning rate" % (name, global_step_value))


class RateHook(tf.train.SessionRunHook):
    """Writes images/s (or steps/s) to TensorBoard, every so many steps."""

    def __init__(self, model_dir, every_steps, batch_size=None):
        self._model_dir, self._every, self._batch_size = model_dir, every_steps, batch_size
        self._tag = "steps_per_second" if batch_size is None else "images_per_second"

    def begin(self):
        self._writer = tf.summary.FileWriterCache.get(self._model_dir)
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord):
        self._step, self._steps, self._began = session.run(self._global_step), 0, time.time()

    def after_run(self, run_context, run_values):
        self._step += 1
        self._steps += 1
        if self._steps == 1:  # in which TensorFlow sets up its graph
            self._began = time.time()
        elif self._step % self._every == 0:
            rate = (self._steps - 1) * (self._batch_size or 1) / max(time.time() - self._began, 1e-9)
            self._writer.add_summary(
                tf.Summary(value=[tf.Summary.Value(tag=self._tag, simple_value=rate)]),
                int(run_context.session.run(self._global_step)))
            self._steps, self._began = 1, time.time()


class StopOnSignal(tf.train.SessionRunHook):
    """Ends the run after the running step when SIGTERM or SIGINT arrives.

    A context manager too: the handlers are in force inside it, in the main thread. `signal` is the name of what arrived,
    `reason` what ends the run: with a `heartbeat`, all workers agree on that and on the step.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, heartbeat=None):
        self.signal = None
        self._heartbeat = heartbeat
        self._previous = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in self.SIGNALS}
        return self

    def __exit__(self, *unused):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def may_start(self):
        """Whether another step is to be run: to be asked before each."""
        return self.signal is None if self._heartbeat is None else self._heartbeat.may_start()

    @property
    def reason(self):
        return self.signal if self._heartbeat is None else self._heartbeat.stopped_by

    def after_run(self, run_context, run_values):
        if self.signal is not None and self._heartbeat is None:
            run_context.request_stop()

    def _handle(self, number, frame):
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
        if self._heartbeat is not None:
            self._heartbeat.request_stop(self.signal)
        logging.info("%s: stopping after this step.", self.signal)


class BestCheckpoint(object):
    """Keeps the checkpoint with the best score in `model_dir/best`, over resumed runs too.

    Make it before the session (it adds ops), then call it as `best(session, step, score)`.
    """

    def __init__(self, model_dir):
        self._folder = os.path.join(model_dir, "best")
        self._record = os.path.join(self._folder, "best.json")
        self._saver = saving.CheckpointSaver(max_to_keep=1, save_relative_paths=True)

    def __call__(self, session, step, score):
        """Saves the session's variables if `score` beats the best so far; returns whether it did."""
        best = self.best()
        if not score > (best["score"] if best else -math.inf):  # NaN never does
            return False
        tf.gfile.MakeDirs(self._folder)
        if best:
            self._saver.recover_last_checkpoints(tf.train.get_checkpoint_state(
                self._folder).all_model_checkpoint_paths if tf.train.get_checkpoint_state(self._folder) else [])
        self._saver.save(session, os.path.join(self._folder, "model.ckpt"), global_step=step, write_meta_graph=False)
        with open(self._record + ".partial", "w") as file:
            json.dump({"step": int(step), "score": float(score)}, file)
        os.replace(self._record + ".partial", self._record)
        return True

    def best(self):
        """The record of the best checkpoint, a dict of `step` and `score`, or None."""
        if not os.path.exists(self._record):
            return None
        with open(self._record) as file:
            return json.load(file)
