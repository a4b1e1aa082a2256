"""The configuration of train_classifier.py: its flag, its rules, and the copy kept in model_dir.

As `scripts.configuration` is for segmentation; the full list of settings is configs/cifar10_resnet.py.
"""

from ml_collections import config_dict

from configs import cifar10_resnet
from scripts import commandline, configuration, setting_rules
from scripts.commandline import UsageError
from scripts.setting_rules import number, numbers, one_of, rule, whole, within


def describes_classifier(config):
    """Whether a configuration is one of a classifier, by its data set."""
    return config.get("dataset") == "cifar10"


def load(holder):
    """The checked configuration of the command line, as an editable copy of its own."""
    with commandline.usage_errors():
        return config_dict.ConfigDict(check(holder.value).to_dict())


def read(model_dir):
    """The configuration a classifier was trained with; None where model_dir has none."""
    return configuration.read(model_dir, cifar10_resnet.get_config())


def check(config):
    """Raises UsageError, in one line, for the first value that no run can have. Returns the configuration."""
    setting_rules.check_data_set(config, ["cifar10"], "train.py trains on the others")
    setting_rules.check_names(config, cifar10_resnet.get_config(), "configs/cifar10_resnet.py")
    setting_rules.check_values(config, _RULES)
    setting_rules.check_norm(config)
    boundaries = config.optimizer.boundaries
    if list(boundaries) != sorted(set(boundaries)):
        raise UsageError("config.optimizer.boundaries is {}: each step must be above the one before".format(boundaries))
    return config


_RULES = (
    rule(
        "batch_size max_steps model.units model.width eval.batch_size eval.every_steps checkpoint.every_steps "
        "checkpoint.keep log.every_steps log.summary_every_steps input.num_parallel",
        "a whole number above 0",
        lambda v: whole(v) and v > 0,
    )
    + rule("input.shuffle", "True or False", lambda v: isinstance(v, bool))
    + rule("seed", "a whole number, 0 or more", lambda v: whole(v) and v >= 0)
    + rule("input.pad", "a whole number, 0 to 32", lambda v: whole(v) and 0 <= v <= 32)
    + rule("input.flip_probability", "a probability, 0 to 1", within(0, 1))
    + rule("num_classes", "10, the classes of CIFAR-10", lambda v: v == 10)
    + rule(
        "input.mean",
        "three numbers from 0 to 255, for red, green and blue",
        lambda v: numbers(v, within(0, 255), 3),
    )
    + rule(
        "input.std",
        "three numbers above 0, for red, green and blue",
        lambda v: numbers(v, lambda c: c > 0, 3),
    )
    + rule("optimizer.momentum model.norm_momentum", "from 0 up to, but not, 1", lambda v: number(v) and 0 <= v < 1)
    + rule(
        "optimizer.learning_rate optimizer.factor model.norm_epsilon",
        "a number above 0",
        lambda v: number(v) and v > 0,
    )
    + rule("optimizer.weight_decay", "a number, 0 or more", lambda v: number(v) and v >= 0)
    + rule(
        "optimizer.boundaries",
        "steps above 0, such as (64000, 96000)",
        lambda v: isinstance(v, (tuple, list)) and (not v or numbers(v, lambda step: whole(step) and step > 0)),
    )
    + one_of("train_split", "train", "test")
    + one_of("eval_split", "train", "test")
    + one_of("model.name", "cifar_resnet")
    + one_of("model.norm", "sync", "plain")
    + one_of("model.norm_statistics", "sum", "concat")
    + rule("model.norm_group_size", "None, or a number of towers above 0", lambda v: v is None or whole(v) and v > 0)
    + one_of("optimizer.name", "momentum")
    + one_of("optimizer.decay_on", "all", "kernels")
)
