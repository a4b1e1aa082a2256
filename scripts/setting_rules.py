"""Rules that the values of a configuration must follow, and their check.

A rule is (name of a setting, what it must be in words, a predicate). The names themselves must be those of a full list
of settings, neither more nor fewer.
"""

import numpy as np
from ml_collections import config_dict

from scripts.commandline import UsageError

_LARGEST = float(np.finfo(np.float32).max)


def rule(names, wanted, holds):
    """The same rule for each of the settings named in one string."""
    return [(name, wanted, holds) for name in names.split()]


def one_of(name, *choices):
    return rule(name, "one of {}".format(", ".join(choices)), lambda value: isinstance(value, str) and value in choices)


def number(value):
    """Whether a value is a finite number that float32 can hold; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def whole(value):
    """Whether a value is a whole number that int32 can hold, which is what they become in a graph."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def within(low, high):
    """A predicate: a number from `low` to `high`."""
    return lambda value: number(value) and low <= value <= high


def numbers(value, holds, count=None):
    """Whether a value is a tuple or list, not empty, of `count` numbers that `holds` is true of."""
    return (isinstance(value, (tuple, list)) and len(value) > 0 and count in (None, len(value))
            and all(number(item) and holds(item) for item in value))


def check_values(config, rules):
    """UsageError, in one line, for the first value that breaks its rule."""
    for name, wanted, holds in rules:
        value = get(config, name)
        try:
            good = holds(value)
        except TypeError:  # a string where a number is due
            good = False
        if not good:
            raise UsageError("config.{} is {}: it must be {}".format(name, shown(value), wanted))


def check_data_set(config, choices, hint):
    """UsageError where a configuration is of a data set for another script: all its other settings differ too."""
    if not isinstance(config, config_dict.ConfigDict):
        raise UsageError("get_config() of the configuration file returns {}: it must return a ConfigDict, as those in "
                         "configs/ do".format(shown(config)))
    if config.get("dataset") not in choices:
        raise UsageError("config.dataset is {}: it must be one of {} ({})".format(
            shown(config.get("dataset")), ", ".join(choices), hint))


def check_norm(config):
    """UsageError where groups of towers are asked of a normalisation that is each tower's own."""
    if config.model.norm == "plain" and config.model.norm_group_size is not None:
        raise UsageError("config.model.norm_group_size is {} with config.model.norm='plain', where towers share nothing: set "
                         "norm to 'sync', or leave norm_group_size out".format(config.model.norm_group_size))


def check_names(config, full, file, prefix=""):
    """UsageError unless a configuration has the names of the full list, which the file named `file` holds."""
    for name in full.keys():
        if name not in config:
            raise UsageError("config.{}{} is missing: start from {} and change what differs".format(prefix, name, file))
    for name in config.keys():
        if name not in full:
            raise UsageError("config.{}{} is no setting: {} has them all".format(prefix, name, file))
        if isinstance(full[name], config_dict.ConfigDict):
            if not isinstance(config[name], config_dict.ConfigDict):
                raise UsageError("config.{}{} is {}: it must be the settings {}".format(
                    prefix, name, shown(config[name]), ", ".join(full[name].keys())))
            check_names(config[name], full[name], file, prefix + name + ".")


def shown(value):
    """A value as a message shows it: in one line, cut where it is long."""
    if isinstance(value, config_dict.ConfigDict):
        value = value.to_dict()
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def get(config, name):
    """The value of a setting by its name with dots."""
    for part in name.split("."):
        config = config[part]
    return config
