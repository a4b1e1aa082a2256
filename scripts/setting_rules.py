"""Rules that the values of a configuration must follow, and their check.

A rule is (name of a setting, what it must be in words, a predicate). The names themselves must be those of a full list
of settings, neither more nor fewer.
"""

import numpy as np
from ml_collections import config_dict

from scripts.commandline import UsageError


def rule(names, wanted, holds):
    """The same rule for each of the settings named in one string."""
    return [(name, wanted, holds) for name in names.split()]


def one_of(name, *choices):
    return rule(name, "one of {}".format(", ".join(choices)), lambda value: value in choices)


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and np.isfinite(value)


def whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def check_values(config, rules):
    """UsageError, in one line, for the first value that breaks its rule."""
    for name, wanted, holds in rules:
        value = get(config, name)
        try:
            good = holds(value)
        except TypeError:  # a string where a number is due
            good = False
        if not good:
            raise UsageError("config.{} is {!r}: it must be {}".format(name, value, wanted))


def check_data_set(config, choices, hint):
    """UsageError where a configuration is of a data set for another script: all its other settings differ too."""
    if not isinstance(config, config_dict.ConfigDict):
        raise UsageError("get_config() of the configuration file returns {!r}: it must return a ConfigDict, as those in "
                         "configs/ do".format(config))
    if config.get("dataset") not in choices:
        raise UsageError("config.dataset is {!r}: it must be one of {} ({})".format(
            config.get("dataset"), ", ".join(choices), hint))


def check_names(config, full, file, prefix=""):
    """UsageError unless a configuration has the names of the full list, which the file named `file` holds."""
    for name in full.keys():
        if name not in config:
            raise UsageError("config.{}{} is missing: start from {} and change what differs".format(prefix, name, file))
    for name in config.keys():
        if name not in full:
            raise UsageError("config.{}{} is no setting: {} has them all".format(prefix, name, file))
        if isinstance(full[name], config_dict.ConfigDict):
            check_names(config[name], full[name], file, prefix + name + ".")


def get(config, name):
    """The value of a setting by its name with dots."""
    for part in name.split("."):
        config = config[part]
    return config
