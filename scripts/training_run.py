"""A run as both training scripts make it: what the flags say it is, and how it goes from where it stands to its last step."""

import collections
import os

import tensorflow.compat.v1 as tf
from absl import flags

import towers
from scripts import checkpoints, configuration, interruption, profile_hook, run_lock, training_flags, training_hooks
from scripts.history import History
from scripts.progress import Progress
from towers import checkpoint_files
from towers.session import BestCheckpoint, run_training

FLAGS = flags.FLAGS

Plan = collections.namedtuple("Plan", "devices model_dir checkpoint start_step stop_step profiled")
Plan.__doc__ = """What a run is going to be.

    devices: the towers' device strings
    model_dir: where it is kept
    checkpoint, start_step: what it goes on from; (None, 0) for a new run
    stop_step: its last step
    profiled: (first, last) of the steps to trace, or None
"""


def plan(config, name, read=configuration.read):
    """The `Plan` that the flags make of a configuration, whose `max_steps` they may raise. Writes nothing.

    Args:
        config: the configuration.
        name: what it is called; the run is kept under that name where --model_dir is unset.
        read: reads the configuration that a model_dir holds.

    Raises:
        ValueError: flags that do not go together, or a model_dir of another run.
    """
    stop_step = FLAGS.max_steps or config.max_steps
    config.max_steps = max(config.max_steps, stop_step)
    devices = towers.tower_devices(FLAGS.num_gpus, FLAGS.device_type)
    training_flags.check_batch(config, len(devices), config.get("accumulate_steps", 1))
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    model_dir = FLAGS.model_dir or os.path.join(root, "runs", name)
    training_flags.check_model_dir(config, model_dir, read)
    interruption.end_at_once_on_sigterm()
    if not FLAGS.dry_run:
        run_lock.check_writable(model_dir)
        if os.path.isdir(model_dir):
            run_lock.take(model_dir)
    training_flags.make_deterministic()
    checkpoint, start_step = checkpoints.find_to_go_on(model_dir)
    profiled = profile_hook.parse(FLAGS.profile, start_step, stop_step)
    return Plan(devices, model_dir, checkpoint, start_step, stop_step, profiled)


def carry_out(run, config, train_step, learning_rate, evaluator, evaluate=training_hooks.evaluate_and_write):
    """Trains to the last step, scoring on the way, and writes what came of it; a finished run is only scored.

    Args:
        run: its `Plan`.
        config: the configuration.
        train_step: the `towers.TrainStep`.
        learning_rate: the scalar tensor of the step's learning rate.
        evaluator, evaluate: as `training_hooks.EvaluationHook` takes them.
    """
    os.makedirs(run.model_dir, exist_ok=True)
    run_lock.take(run.model_dir)
    checkpoint_files.mend(run.model_dir)
    configuration.save(config, run.model_dir)
    history = History(run.model_dir, run.start_step)
    if run.start_step >= run.stop_step:
        print("{} is at step {} already: nothing to train".format(run.model_dir, run.start_step))
        evaluator.network.load_checkpoint(run.checkpoint)
        evaluate(evaluator, run.start_step, history, run.model_dir, config, print)
    else:
        ended = _train(run, config, train_step, learning_rate, evaluator, evaluate, history)
        if ended.signal:
            print(training_flags.stopped(ended))
            return
    print("written: {}".format(run.model_dir))


def _train(run, config, train_step, learning_rate, evaluator, evaluate, history):
    tf.summary.scalar("learning_rate", learning_rate)
    shown = Progress(train_step, learning_rate, config.batch_size, run.stop_step, config.log.every_steps, history)
    hooks = [shown, training_hooks.EvaluationHook(
        evaluator, shown, history, run.model_dir, config, run.stop_step, BestCheckpoint(run.model_dir), evaluate)]
    if run.profiled:
        hooks.append(profile_hook.ProfileHook(run.profiled, shown, run.model_dir))
    return run_training(
        train_step,
        run.model_dir,
        run.stop_step,
        config=towers.session_config(run.devices),
        save_every=config.checkpoint.every_steps,
        keep=config.checkpoint.keep,
        hooks=hooks,
        summary_every=config.log.summary_every_steps,
        batch_size=config.batch_size,
    )
