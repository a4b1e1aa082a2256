"""The configuration of a run: the --config flag, checks of every value, and the copy kept in model_dir.

A configuration is a `ml_collections.ConfigDict` that `get_config()` of a file in configs/ returns; any value
is overridden on the command line, `--config.optimizer.learning_rate=0.02`. `model_dir/config.json` holds the
values a model was trained with; resuming with others is refused, but for settings that change no weight.
"""

import json
import os

from absl import flags
from ml_collections import config_dict, config_flags

from configs import cityscapes_pspnet50
from scripts import commandline, datasets, setting_rules
from scripts.commandline import UsageError
from scripts.setting_rules import number, numbers, one_of, rule, whole, within

FLAGS = flags.FLAGS
FILE_NAME = "config.json"

# Logging, evaluation and saving may change when a run is resumed, and how the machine reads images and keeps activations;
# what a run started from is of the past then.
FREE_TO_CHANGE = (
    "log", "eval", "checkpoint", "eval_split", "input.num_parallel", "input.cache", "recompute", "init_checkpoint")


def define_flag(default):
    """Defines `--config=FILE` and `--config.NAME=VALUE`; returns the flag's holder."""
    with commandline.usage_errors():
        return config_flags.DEFINE_config_file(
            "config", default, "Configuration file; any of its values is set with --config.NAME=VALUE."
        )


def name(holder):
    """What the configuration is called: its file's name without .py."""
    with commandline.usage_errors():
        return os.path.splitext(os.path.basename(FLAGS[holder.name].config_filename))[0]


def load(holder):
    """The checked configuration of the command line, as an editable copy of its own."""
    with commandline.usage_errors():
        return config_dict.ConfigDict(_tuples(check(holder.value).to_dict()))


def check(config):
    """Raises UsageError, in one line, for the first value that no run can have. Returns the configuration."""
    setting_rules.check_data_set(config, sorted(datasets.DATA_SETS), "train_classifier.py trains on cifar10")
    setting_rules.check_names(config, cityscapes_pspnet50.get_config(), "configs/cityscapes_pspnet50.py")
    setting_rules.check_values(config, _RULES)
    setting_rules.check_norm(config)
    classes = datasets.of(config).num_classes
    if config.num_classes != classes:
        raise UsageError(
            "config.num_classes is {}: it must be {}, the classes of the data set {!r}".format(
                config.num_classes, classes, config.dataset
            )
        )
    weights = config.loss.class_weights
    if weights is not None and not (numbers(weights, lambda w: w >= 0, config.num_classes) and any(weights)):
        raise UsageError("config.loss.class_weights is {}: it must be None, or a weight for each of the {} classes, 0 or more "
                         "and not all 0".format(setting_rules.shown(weights), config.num_classes))
    return config


def differences(config, saved):
    """Lines `name: saved value -> value` for all that differs from the saved values and may not."""
    old, new = flat(saved), flat(config)
    return [
        "{}: {} -> {}".format(name, old.get(name, "(absent)"), new.get(name, "(absent)"))
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name) and not _free(name)
    ]


def save(config, model_dir):
    """Writes model_dir/config.json, whole or not at all."""
    path = os.path.join(model_dir, FILE_NAME)
    with open(path + ".partial", "w") as file:
        json.dump(config.to_dict(), file, indent=2, sort_keys=True)
        file.write("\n")
    os.replace(path + ".partial", path)


def read(model_dir, full=None):
    """The configuration a model was trained with; None where model_dir has none.

    A setting that is newer than the run has its value of `full`, by default configs/cityscapes_pspnet50.py, where
    settings come in so that they change nothing.
    """
    path = os.path.join(model_dir, FILE_NAME)
    if not os.path.exists(path):
        return None
    try:
        with open(path) as file:
            saved = _tuples(json.load(file))
        if not isinstance(saved, dict):
            raise ValueError("it holds {!r}".format(saved))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            "{} is no JSON of settings ({}): it is written by train.py and not meant to be edited".format(path, error)
        ) from error
    return config_dict.ConfigDict(_completed(saved, (full or cityscapes_pspnet50.get_config()).to_dict()))


def _completed(values, full):
    """A dict of settings, with those of `full` that it has not."""
    missing = {name: value for name, value in full.items() if name not in values}
    parts = {name: _completed(value, full.get(name, {})) for name, value in values.items() if isinstance(value, dict)}
    return dict(values, **missing, **parts)


def flat(config, prefix=""):
    """All values of a configuration as one dict, under names such as 'optimizer.learning_rate'."""
    values = {}
    for name, value in config.items():
        if isinstance(value, config_dict.ConfigDict):
            values.update(flat(value, prefix + name + "."))
        else:
            values[prefix + name] = value
    return values


def _free(name):
    return any(name == free or name.startswith(free + ".") for free in FREE_TO_CHANGE)


def _tuples(value):
    """JSON has lists only, configurations tuples only."""
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _sizes(value):
    return numbers(value, lambda side: whole(side) and 0 < side <= 16384, 2)


def _split(value):
    return isinstance(value, str) and value.strip() != "" and not {"/", "\\", "\0"} & set(value) and value not in (".", "..")


_RULES = (
    rule(
        "batch_size accumulate_steps max_steps num_classes input.num_parallel synthetic.num_train synthetic.num_val "
        "synthetic.height synthetic.width model.width model.pyramid_channels model.head_channels "
        "checkpoint.every_steps checkpoint.keep eval.every_steps log.every_steps log.summary_every_steps",
        "a whole number above 0",
        lambda v: whole(v) and v > 0,
    )
    + rule(
        "seed synthetic.seed model.aux_channels eval.num_pictures",
        "a whole number, 0 or more",
        lambda v: whole(v) and v >= 0,
    )
    + rule("recompute eval.flip input.cache input.shuffle model.align_corners", "True or False", lambda v: isinstance(v, bool))
    + rule("train_split eval_split", "the name of a folder in the data set, such as 'val'", _split)
    + one_of("precision", "float32", "bfloat16", "float16")
    + rule("ignore_label", "255, which every data set's labels are mapped to", lambda v: v == 255)
    + rule("input.crop_size eval.crop_size", "two whole numbers, 1 to 16384: (height, width)", _sizes)
    + rule("input.resize", "a factor above 0, at most 4", lambda v: v != 0 and within(0, 4)(v))
    + rule(
        "input.scale_range",
        "two factors above 0, at most 100, (smallest, largest)",
        lambda v: numbers(v, lambda factor: 0 < factor <= 100, 2) and v[0] <= v[1],
    )
    + rule("input.rotate_degrees", "from 0 to 180", within(0, 180))
    + rule(
        "input.rotate_probability input.blur_probability input.flip_probability",
        "a probability, 0 to 1",
        within(0, 1),
    )
    + rule(
        "input.mean",
        "three numbers from 0 to 255, for red, green and blue",
        lambda v: numbers(v, within(0, 255), 3),
    )
    + rule("input.std", "three numbers above 0, for red, green and blue", lambda v: numbers(v, lambda c: c > 0, 3))
    + rule(
        "model.pyramid_bins",
        "whole numbers above 0, such as (1, 2, 3, 6)",
        lambda v: numbers(v, lambda b: whole(b) and b > 0),
    )
    + rule(
        "model.dropout optimizer.momentum model.norm_momentum",
        "from 0 up to, but not, 1",
        lambda v: number(v) and 0 <= v < 1,
    )
    + rule(
        "model.norm_epsilon optimizer.learning_rate optimizer.power",
        "a number above 0",
        lambda v: number(v) and v > 0,
    )
    + rule(
        "optimizer.end_learning_rate optimizer.weight_decay optimizer.head_lr_multiplier loss.aux_weight",
        "a number, 0 or more",
        lambda v: number(v) and v >= 0,
    )
    + rule("loss.hard_pixel_fraction", "a share above 0, at most 1", lambda v: v is None or (v != 0 and within(0, 1)(v)))
    + rule("eval.stride_rate", "above 0, at most 1", lambda v: v != 0 and within(0, 1)(v))
    + rule("eval.scales", "factors above 0, at most 100, such as (1.0,)", lambda v: numbers(v, lambda s: 0 < s <= 100))
    + rule(
        "eval.max_images eval.long_side", "a whole number above 0", lambda v: v is None or (whole(v) and v > 0)
    )
    + rule(
        "init_checkpoint",
        "a checkpoint's prefix, or a folder that holds one",
        lambda v: v is None or (isinstance(v, str) and v.strip() != ""),
    )
    + one_of("model.backbone", "resnet50", "resnet101", "thin_resnet")
    + one_of("model.stem", "deep", "7x7")
    + one_of("model.pyramid", "adaptive", "average")
    + one_of("model.norm", "sync", "plain")
    + one_of("model.norm_statistics", "sum", "concat")
    + rule("model.norm_group_size", "None, or a number of towers above 0", lambda v: v is None or whole(v) and v > 0)
    + one_of("loss.mean", "tower", "global")
    + one_of("optimizer.name", "momentum")
    + one_of("optimizer.decay_on", "all", "kernels")
)
