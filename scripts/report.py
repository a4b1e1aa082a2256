"""What a run is, printed before its first step."""

import numpy as np
import tensorflow.compat.v1 as tf

from scripts import datasets, resolved_recipe


def describe(config, devices, train_step, part_sizes, train_examples, eval_examples, start_step, stop_step):
    """Text: towers and devices, batch, sync-BN layers, update ops, variables, data, and the resolved recipe.

    Args:
        part_sizes: images a tower, one number a tower.
        train_examples, eval_examples: the lists of examples.
        start_step, stop_step: the step the run resumes at (0: a new one), and its last.
    """
    means = [v for v in tf.global_variables() if v.op.name.endswith("/moving_mean")]
    trainable = tf.trainable_variables()
    sync = len(means) if config.model.norm == "sync" else 0
    sizes = datasets.sizes(config, eval_examples)
    lines = [
        (
            "towers",
            "{}: {}{}".format(
                len(devices),
                " ".join(devices),
                " (logical CPU devices)" if "cpu" in devices[0].lower() else "",
            ),
        ),
        ("batch", _batch(config, part_sizes)),
        (
            "network",
            "PSPNet on {}, {} classes, crop {}x{}".format(
                config.model.backbone, config.num_classes, *config.input.crop_size
            ),
        ),
        (
            "sync BN",
            "{} layers ({} plain), {} update ops".format(sync, len(means) - sync, len(train_step.update_ops)),
        ),
        (
            "variables",
            "{} trainable with {:,} parameters; {} in all with {:,}".format(
                len(trainable),
                _parameters(trainable),
                len(tf.global_variables()),
                _parameters(tf.global_variables()),
            ),
        ),
        ("data", "{} images to train on, {} to evaluate".format(len(train_examples), len(eval_examples))),
    ]
    lines += resolved_recipe.describe(config, len(train_examples), sizes)
    if stop_step < config.max_steps:
        lines.append(("stops", "at step {:,} of the {:,}".format(stop_step, config.max_steps)))
    if not start_step and not config.init_checkpoint:
        lines.append(("weights", "random initial values, seed {}".format(config.seed)))
    if start_step:
        lines.append(("resumed", "at step {}".format(start_step)))
    return "\n".join("{:<10} {}".format(name, text) for name, text in lines)


def class_table(scores, names):
    """Text: one line a class with its IoU and accuracy, then the means."""
    lines = ["{:<16} {:>7} {:>9}".format("class", "IoU", "accuracy")]
    for name, iou, accuracy in zip(names, scores["per_class_iou"], scores["per_class_accuracy"]):
        lines.append("{:<16} {:>7} {:>9}".format(name, _score(iou), _score(accuracy)))
    lines.append("{:<16} {:>7} {:>9}".format("mean", _score(scores["miou"]), _score(scores["mean_accuracy"])))
    lines.append(
        "mIoU {:.4f} over {} classes, mean accuracy {:.4f}, pixel accuracy {:.4f}".format(
            scores["miou"], scores["num_classes_present"], scores["mean_accuracy"], scores["pixel_accuracy"]
        )
    )
    return "\n".join(lines)


def _batch(config, part_sizes):
    text = "{} in total, {} a tower".format(config.batch_size, _sizes(part_sizes))
    if config.accumulate_steps > 1:
        text += ", in each of {} runs that make a step".format(config.accumulate_steps)
    return text if config.precision == "float32" else text + ", {} activations".format(config.precision)


def _sizes(part_sizes):
    return str(part_sizes[0]) if len(set(part_sizes)) == 1 else ", ".join(map(str, part_sizes))


def _parameters(variables):
    return sum(int(np.prod(variable.shape.as_list())) for variable in variables)


def _score(value):
    return "absent" if value is None else "{:.4f}".format(value)
