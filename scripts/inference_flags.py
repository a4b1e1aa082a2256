"""The flags of the scripts that use a trained model: which one, and how windows are laid over images.

This module imports without TensorFlow, so that a script can look at its other arguments first.
"""

import os

from absl import flags

from scripts import configuration
from scripts.commandline import UsageError

BEST = "best"

flags.disclaim_key_flags()  # they are the flags of the script that asks for them, in its --help too


def define_model():
    flags.DEFINE_string("model_dir", None, "Folder of a training run.")
    flags.DEFINE_string("checkpoint", "latest", "latest, best (by mIoU), or the path of a checkpoint.")


def define():
    define_model()
    flags.DEFINE_integer("num_gpus", 1, "Number of towers that share the windows.", lower_bound=1)
    flags.DEFINE_enum("device_type", None, ["cpu", "gpu"], "What towers run on; unset: GPUs where any is.")
    flags.DEFINE_list("crop_size", None, "Window: height,width in pixels.")
    flags.DEFINE_float("stride_rate", None, "Step between windows over the window's size, above 0 to 1.")
    flags.DEFINE_list("scales", None, "Scales whose probabilities are averaged, such as 0.75,1,1.25.")
    flags.DEFINE_bool("flip", None, "Average with the mirrored image.")


def read_model(values):
    """The checked configuration of a model, and the path of its checkpoint; ValueError where there is none."""
    config = _read_configuration(values)
    configuration.check(config)
    return config, _checkpoint(values.model_dir, values.checkpoint)


def read(values):
    """The checked configuration, the checkpoint's path and the towers' devices.

    Raises:
        ValueError: no such model, or a flag that it cannot follow.
    """
    import towers
    from scripts import network

    config = _read_configuration(values)
    if values.crop_size is not None:
        config.eval.crop_size = tuple(_numbers("crop_size", values.crop_size, int))
    if values.scales is not None:
        config.eval.scales = tuple(_numbers("scales", values.scales, float))
    if values.stride_rate is not None:
        config.eval.stride_rate = values.stride_rate
    if values.flip is not None:
        config.eval.flip = values.flip
    configuration.check(config)
    network.check_crop(config, "eval.crop_size")
    devices = towers.tower_devices(values.num_gpus, values.device_type)
    return config, _checkpoint(values.model_dir, values.checkpoint), devices


def _read_configuration(values):
    if not values.model_dir:
        raise UsageError("--model_dir is missing: name the folder of a training run")
    config = configuration.read(values.model_dir)
    if config is None:
        raise ValueError(
            "no training run in {}: there is no {}".format(
                values.model_dir, os.path.join(values.model_dir, configuration.FILE_NAME)
            )
        )
    return config


def _checkpoint(model_dir, wanted):
    from scripts import checkpoints

    folder = {"latest": model_dir, "best": os.path.join(model_dir, BEST)}.get(wanted)
    path = checkpoints.find(folder)[0] if folder else wanted
    if not path:
        raise ValueError("no checkpoint in {}".format(folder))
    if not os.path.exists(path + ".index"):
        raise ValueError("no checkpoint at {}: there is no {}.index".format(path, path))
    return path


def _numbers(name, texts, kind):
    try:
        return [kind(text) for text in texts]
    except ValueError:
        message = "--{}={}: numbers are wanted, with commas between".format(name, ",".join(texts))
        raise UsageError(message) from None
