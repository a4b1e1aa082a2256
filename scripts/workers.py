"""Several workers as the flags or TF_CONFIG name them: who they are, that all mean one run, and the share of each.

    a$ python scripts/train.py --num_gpus=8 --worker_hosts=a:2222,b:2222 --task_index=0
    b$ python scripts/train.py --num_gpus=8 --worker_hosts=a:2222,b:2222 --task_index=1

Worker 0, the chief, alone reads checkpoints and writes. Where --worker_hosts is unset, TF_CONFIG is looked at, as cluster
managers set it.
"""

import hashlib
import os

from absl import flags

import towers
from scripts import commandline, configuration
from scripts.commandline import UsageError

FLAGS = flags.FLAGS
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# How each machine reads and keeps may differ; all else must be one.
_OF_THE_MACHINE = ("input.num_parallel", "input.cache", "recompute")


def define():
    """Defines the flags."""
    flags.DEFINE_list("worker_hosts", [], "HOST:PORT of every worker, the same list on each; the first is the chief.")
    flags.DEFINE_integer("task_index", None, "This worker's place in --worker_hosts, from 0.", lower_bound=0)
    flags.DEFINE_integer(
        "heartbeat_port", None, "Port at which the chief hears that all live; unset: its port in --worker_hosts plus 1000.",
        lower_bound=1, upper_bound=2**16 - 1)
    flags.DEFINE_float("worker_wait", 50, "Seconds to wait at the start for workers that have not come; more where hosts "
                       "start minutes apart.", lower_bound=1)
    flags.DEFINE_float("worker_timeout", 30, "Seconds without a sign of life after which a worker is dead, and all stop.",
                       lower_bound=3)


def cluster():
    """The `towers.Cluster` that flags or TF_CONFIG describe; None where this process is alone. Starts nothing.

    Raises:
        UsageError: what is wrong with them.
    """
    try:
        if FLAGS.worker_hosts:
            if FLAGS.task_index is None:
                raise UsageError("--worker_hosts names {} workers, but --task_index is missing: give each its place in the "
                                 "list, from 0".format(len(FLAGS.worker_hosts)))
            found = towers.Cluster(FLAGS.worker_hosts, FLAGS.task_index)
        elif FLAGS.task_index is not None:
            raise UsageError("--task_index={} says nothing without --worker_hosts=HOST:PORT,...".format(FLAGS.task_index))
        elif os.environ.get("TF_CONFIG"):
            found = towers.Cluster.from_tf_config()
        else:
            return None
    except ValueError as error:
        raise UsageError(str(error)) from error
    return found if found.num_workers > 1 else None


def start_heartbeat(cluster):
    """From here on the end of any worker is the end of all, and an error here is told to them."""
    cluster.start_heartbeat(FLAGS.heartbeat_port, FLAGS.worker_timeout)
    commandline.failure_listeners.append(lambda line: cluster.heartbeat and cluster.heartbeat.fail(line))


def join(cluster, config, devices, start_step, stop_step, examples):
    """Waits for all workers, and returns the chief's start step.

    Args:
        cluster: the `towers.Cluster`.
        config: the configuration.
        devices: this worker's device strings.
        start_step: the step of this worker's checkpoint; None where it has none, and goes by the chief's.
        stop_step: the last step of the run.
        examples: what is trained on, in words that are the same where it is the same.

    Raises:
        towers.heartbeat.WorkersError: who has not come, or what differs.
    """
    facts = {"config." + name: _as_text(value) for name, value in configuration.flat(config).items()
             if name not in _OF_THE_MACHINE}
    facts.update({
        "--num_gpus": len(devices),
        "--max_steps": stop_step,
        "--deterministic": FLAGS.deterministic,
        "the examples to train on": examples,
        "the sources of models, inputs and scripts": towers.cluster.source_digest(
            *(os.path.join(ROOT, folder) for folder in ("models", "inputs", "scripts"))),
        "the step of the checkpoint": start_step,
    })
    agreed = cluster.join(facts, FLAGS.worker_wait, lambda line: print("{:<10} {}".format("workers", line), flush=True))
    return agreed["the step of the checkpoint"]


def describe(cluster, num_local):
    """The line about the workers."""
    return "{:<10} {}: {}; this is worker {}, with towers {} to {} of {}".format(
        "workers", cluster.num_workers, " ".join(cluster.hosts), cluster.task_index, cluster.task_index * num_local,
        (cluster.task_index + 1) * num_local - 1, cluster.num_workers * num_local)


def _as_text(value):
    """JSON has neither tuples nor all floats."""
    return repr(value) if isinstance(value, (float, tuple, list)) else value


def listed(names):
    """How many names there are, and a digest of them, in words."""
    return "{} (list {})".format(len(names), _digest(names))


def _digest(names):
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:8]
