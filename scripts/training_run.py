"""A run as both training scripts make it: what the flags say it is, and how it goes from where it stands to its last step."""

import collections
import os

import tensorflow.compat.v1 as tf
from absl import flags

import towers
from scripts import checkpoints, configuration, interruption, profile_hook, run_lock, training_flags, training_hooks, workers
from scripts.history import History
from scripts.progress import Progress
from towers import checkpoint_files
from towers.session import BestCheckpoint, run_training

FLAGS = flags.FLAGS

Plan = collections.namedtuple(
    "Plan", "devices model_dir checkpoint start_step first_batch stop_step profiled cluster aggregation")
Plan.__doc__ = """What a run is going to be.

    devices: the towers' device strings
    model_dir: where it is kept
    checkpoint, start_step: what it goes on from; (None, 0) for a new run
    first_batch: the number of the first batch that it has not seen (see `batches`)
    stop_step: its last step
    profiled: (first, last) of the steps to trace, or None
    cluster: the `towers.Cluster`, or None where there is one worker
    aggregation: arguments of `towers.build_train_step` that say where and how towers' tensors are summed, a dict
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
    cluster = workers.cluster()
    aggregation = training_flags.aggregation(devices, cluster)
    num_workers = cluster.num_workers if cluster else 1
    training_flags.check_batch(config, num_workers * len(devices), config.get("accumulate_steps", 1))
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    model_dir = FLAGS.model_dir or os.path.join(root, "runs", name)
    training_flags.check_model_dir(config, model_dir, read)
    interruption.end_at_once_on_sigterm()
    if cluster and not FLAGS.dry_run:
        workers.start_heartbeat(cluster)
    if not FLAGS.dry_run and _writes(cluster):
        run_lock.check_writable(model_dir)
        if os.path.isdir(model_dir):
            run_lock.take(model_dir)
    training_flags.make_deterministic()
    checkpoint, start_step = checkpoints.find_to_go_on(model_dir)
    return Plan(devices, model_dir, checkpoint, start_step, _first_batch(config, checkpoint, start_step), stop_step,
                _profiled(start_step, stop_step), cluster, aggregation)


def meet(run, config, examples):
    """The `Plan` that all workers have agreed on, after all have come; of a run with one worker `run` itself.

    Args:
        run: this worker's `Plan`.
        config: the configuration.
        examples: what is trained on, in words that are the same where it is the same.
    """
    if not run.cluster or FLAGS.dry_run:
        return run
    known = run.start_step if run.checkpoint or run.cluster.is_chief else None
    print(workers.describe(run.cluster, len(run.devices)), flush=True)
    start_step = workers.join(run.cluster, config, run.devices, known, run.stop_step, examples)
    return run._replace(start_step=start_step, first_batch=_first_batch(config, run.checkpoint, start_step),
                        profiled=_profiled(start_step, run.stop_step))


def share(run, batch_size):
    """The places of a batch that this worker reads, (first, number); None for all."""
    return run.cluster.share(batch_size, len(run.devices)) if run.cluster else None


def part_sizes(run, config):
    """Examples a tower in each run of the step, one number a tower of all workers."""
    number = len(run.devices) * (run.cluster.num_workers if run.cluster else 1)
    each, more = divmod(config.batch_size // config.get("accumulate_steps", 1), number)
    return [each + (tower < more) for tower in range(number)]


def is_chief(run):
    """Whether this process writes what the run writes."""
    return _writes(run.cluster)


def _writes(cluster):
    return cluster is None or cluster.is_chief


def _first_batch(config, checkpoint, start_step):
    skipped = checkpoints.skipped_runs(checkpoint) if checkpoint else 0
    return start_step * config.get("accumulate_steps", 1) + skipped


def _profiled(start_step, stop_step):
    return profile_hook.parse(FLAGS.profile, start_step, stop_step)


def carry_out(run, config, train_step, learning_rate, evaluator, evaluate=training_hooks.evaluate_and_write,
              replay=None):
    """Trains to the last step, scoring on the way, and writes what came of it; a finished run is only scored.

    Args:
        run: its `Plan`.
        config: the configuration.
        train_step: the `towers.TrainStep`.
        learning_rate: the scalar tensor of the step's learning rate.
        evaluator, evaluate: as `training_hooks.EvaluationHook` takes them; not used by workers other than the chief.
        replay: as `towers.session.run_training` takes it.
    """
    if not is_chief(run):
        return _follow(run, config, train_step, replay)
    os.makedirs(run.model_dir, exist_ok=True)
    run_lock.take(run.model_dir)
    checkpoint_files.mend(run.model_dir)
    configuration.save(config, run.model_dir)
    history = History(run.model_dir, run.start_step)
    if run.start_step >= run.stop_step:
        print("{} is at step {} already: nothing to train".format(run.model_dir, run.start_step))
        evaluator.network.load_checkpoint(run.checkpoint)
        evaluate(evaluator, run.start_step, history, run.model_dir, config, print)
        if run.cluster:
            run.cluster.leave()
    else:
        ended = _train(run, config, train_step, learning_rate, evaluator, evaluate, history, replay)
        if ended.signal:
            print(training_flags.stopped(ended))
            return
    print("written: {}".format(run.model_dir))


def _train(run, config, train_step, learning_rate, evaluator, evaluate, history, replay):
    tf.summary.scalar("learning_rate", learning_rate)
    shown = Progress(train_step, learning_rate, config.batch_size, run.stop_step, config.log.every_steps, history)
    hooks = [shown, training_hooks.EvaluationHook(
        evaluator, shown, history, run.model_dir, config, run.stop_step, BestCheckpoint(run.model_dir), evaluate)]
    if run.profiled:
        hooks.append(profile_hook.ProfileHook(run.profiled, shown, run.model_dir))
    return _run(run, config, train_step, hooks, replay)


def _follow(run, config, train_step, replay):
    """The run of a worker other than the chief: the same steps, and nothing written."""
    if run.start_step >= run.stop_step:
        print("the run is at step {} already: nothing to train".format(run.start_step))
        run.cluster.leave()
        return
    ended = _run(run, config, train_step, [], replay)
    print("stopped by {} at step {}".format(ended.signal, ended.step) if ended.signal else "done: step {}".format(ended.step))


def _run(run, config, train_step, hooks, replay):
    """The session loop; returns its `towers.session.TrainingEnd`."""
    return run_training(
        train_step,
        run.model_dir,
        run.stop_step,
        config=(run.cluster or towers).session_config(run.devices),
        save_every=config.checkpoint.every_steps,
        keep=config.checkpoint.keep,
        hooks=hooks,
        summary_every=config.log.summary_every_steps,
        batch_size=config.batch_size,
        cluster=run.cluster,
        replay=replay,
    )
