"""The flags of the training scripts, and what they refuse before anything is written."""

import os

import tensorflow
from absl import flags

from scripts import configuration, workers
from scripts.commandline import UsageError

FLAGS = flags.FLAGS


def define(data_dir):
    """Defines the flags; `data_dir` is the help of --data_dir."""
    flags.DEFINE_integer(
        "num_gpus", 1, "Number of towers: one a GPU; logical CPU devices where there is none.", lower_bound=1
    )
    flags.DEFINE_enum(
        "device_type", None, ["cpu", "gpu"], "What towers run on; unset: GPUs where any is visible."
    )
    flags.DEFINE_enum(
        "aggregation", "cpu", ["cpu", "gpu", "nccl"],
        "Where variables live and towers' statistics and gradients are summed: the CPU, the first GPU, or the first GPU with "
        "gradients summed by NCCL.",
    )
    flags.DEFINE_string("data_dir", None, data_dir)
    flags.DEFINE_string("model_dir", None, "Where the run is kept; unset: runs/NAME_OF_THE_CONFIGURATION.")
    flags.DEFINE_integer(
        "max_steps",
        None,
        "Stop at this step; the schedule stays that of config.max_steps if that is greater.",
        lower_bound=1,
    )
    flags.DEFINE_bool("dry_run", False, "Build it all and print what a run would be; take no step, write nothing.")
    flags.DEFINE_string("profile", None, "FIRST,LAST: steps of which a trace is written into MODEL_DIR/profile.")
    workers.define()
    flags.DEFINE_bool("allow_config_change", False, "Resume although the saved configuration differs.")
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only ops that give the same bits every time (TensorFlow's op determinism: for GPUs; may be slower), so that the "
        "same command ends with the same weights, to the bit, however often it was stopped and resumed.",
    )


def make_deterministic():
    """Switches TensorFlow to deterministic ops where --deterministic asks for it, and says so.

    What else a run depends on is made of the seed, the step and the example: initial values, dropout masks, the order of
    examples and their augmentation; and a checkpoint holds all that a step changes. The number of towers stays free, but
    with other sums come other roundings: the same bits need the same number.
    """
    if FLAGS.deterministic:
        tensorflow.config.experimental.enable_op_determinism()  # compat.v1 has it not
        print("{:<10} {}".format("bits", "deterministic ops only: the same command gives the same weights on the same kind of "
                                 "machine, resumed or not"), flush=True)


def aggregation(devices, cluster):
    """The arguments of `towers.build_train_step` that --aggregation asks for, a dict; UsageError where they cannot be."""
    if FLAGS.aggregation == "cpu":
        return {}
    on_gpus = all("gpu" in device for device in devices)
    if not on_gpus or cluster or (FLAGS.aggregation == "nccl" and len(devices) < 2):
        raise UsageError("--aggregation={}: the towers are on {}{}; wanted {} in one process: take --aggregation=cpu".format(
            FLAGS.aggregation, " ".join(devices), " of several workers" if cluster else "",
            "two or more GPUs" if FLAGS.aggregation == "nccl" else "GPUs"))
    return {"aggregation_device": devices[0], "reduction": "nccl" if FLAGS.aggregation == "nccl" else "copy"}


def check_batch(config, num_towers, accumulate_steps=1):
    """UsageError unless every tower gets an example in each of the runs that make a step."""
    if accumulate_steps > 1:
        if config.batch_size % accumulate_steps or config.batch_size // accumulate_steps < num_towers:
            raise UsageError(
                "config.batch_size {} cannot be accumulated over {} runs of {} towers: it must divide by the runs, and "
                "leave every tower an example".format(config.batch_size, accumulate_steps, num_towers)
            )
    if config.batch_size < num_towers:
        raise UsageError(
            "config.batch_size {} cannot give {} towers an example each: use a larger batch or "
            "fewer towers".format(config.batch_size, num_towers)
        )


def check_model_dir(config, model_dir, read=configuration.read):
    """ValueError where model_dir is no folder, or holds a run of another configuration; `read` reads the saved one."""
    if os.path.exists(model_dir) and not os.path.isdir(model_dir):
        raise UsageError("--model_dir={} is not a folder".format(model_dir))
    saved = read(model_dir)
    changed = configuration.differences(config, saved) if saved is not None else []
    if changed and not FLAGS.allow_config_change:
        raise ValueError(
            "{} holds a run of another configuration ({}): choose another --model_dir, or pass "
            "--allow_config_change to resume it".format(model_dir, "; ".join(changed))
        )


def stopped(ended):
    """The line about a run that a signal stopped; `ended` is a `towers.session.TrainingEnd`."""
    return "stopped by {} at step {}: saved; the same command goes on from there".format(ended.signal, ended.step)
