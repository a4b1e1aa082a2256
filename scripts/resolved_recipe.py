"""What a configuration comes to on the data and the network at hand, in lines for the log.

Every figure is computed by the code that a run uses: the schedule from its graph, decay and learning rate by
variable from the gradient transform's own rules, windows from the plan that evaluation follows.
"""

import collections

import tensorflow.compat.v1 as tf

from models import inference
from scripts import network, schedule


def describe(config, num_train, eval_sizes):
    """A list of (heading, text), to be printed before a run's first step.

    Args:
        config: the configuration.
        num_train: number of training images.
        eval_sizes: (height, width) of every image to evaluate.

    Call it where the network has been built in the default graph: it counts the trainable variables.
    """
    return [
        ("schedule", iterations(config, num_train)),
        *[("lr", text) for text in learning_rates(config)],
        *[("decay", text) for text in decay(config, tf.trainable_variables())],
        *[("evaluation", text) for text in windows(config, eval_sizes)],
    ]


def iterations(config, num_train):
    """The number of steps, and of epochs, in words."""
    seen = config.max_steps * config.batch_size
    return "{:,} steps of {} images, {:.2f} epochs of {:.2f} steps, power {:g}".format(
        config.max_steps, config.batch_size, seen / num_train, num_train / config.batch_size, config.optimizer.power
    )


def learning_rates(config):
    """For each group of variables: its learning rate at the first, the middle and the last step."""
    steps = [0, config.max_steps // 2, config.max_steps - 1]
    rates = schedule.learning_rates(config, steps)
    for group in network.GROUPS:
        multiplier = network.lr_multiplier(config, group)
        at = ", ".join("{:.4g} at step {:,}".format(multiplier * r, s + 1) for r, s in zip(rates, steps))
        yield "{} x{:g}: {}".format(group, multiplier, at)


def decay(config, variables):
    """For each group: how many of its trainable variables decay, by the last part of their names."""
    for group in network.GROUPS:
        members = [v for v in variables if network.group(v) == group]
        kinds = collections.Counter(v.op.name.split("/")[-1] for v in members)
        decayed = [v for v in members if network.weight_decay(config, v)]
        counted = collections.Counter(v.op.name.split("/")[-1] for v in decayed)
        yield "{}: {:g} on {} of {} variables ({})".format(
            group,
            config.optimizer.weight_decay,
            len(decayed),
            len(members),
            ", ".join("{} of {} {}".format(counted[kind], kinds[kind], kind) for kind in sorted(kinds)),
        )


def windows(config, sizes):
    """How the evaluation lays its windows over images of the sizes at hand: the commonest, and the sum."""
    if not sizes:
        return
    settings = config.eval
    of_size = {size: _windows_of(config, size) for size in set(sizes)}
    counted = collections.Counter(sizes)
    height, width = size = min(counted, key=lambda size: (-counted[size], size))
    yield "crop {}x{}, stride {}x{}, flip {}; {} of {} images are {}x{}, which are seen as".format(
        *settings.crop_size,
        *[inference.stride(side, settings.stride_rate) for side in settings.crop_size],
        "on" if settings.flip else "off",
        counted[size],
        len(sizes),
        height,
        width,
    )
    for scale, ((scaled_height, scaled_width), places) in zip(settings.scales, of_size[size]):
        rows, columns = (len(set(starts)) for starts in zip(*places))
        yield "  {}x{} at scale {:g}: {}x{} windows".format(scaled_height, scaled_width, scale, rows, columns)
    total = sum(len(places) for size in sizes for _, places in of_size[size])
    per_window = 2 if settings.flip else 1
    yield "  forward passes: {} for such an image, {:,} for all".format(
        per_window * sum(len(places) for _, places in of_size[size]), per_window * total
    )


def _windows_of(config, size):
    """For each scale ((height, width) of the scaled image, places of its windows)."""
    settings = config.eval
    scaled = [
        inference.scaled_size(*size, scale * config.input.resize, settings.long_side) for scale in settings.scales
    ]
    return [(s, inference.window_plan(*s, *settings.crop_size, settings.stride_rate)) for s in scaled]
