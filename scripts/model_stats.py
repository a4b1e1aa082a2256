"""Prints parameters and FLOPs of a configuration's network, layer by layer and in all.

    python scripts/model_stats.py --config=configs/cityscapes_pspnet50.py
    python scripts/model_stats.py --config=configs/cityscapes_pspnet50.py --input_size=473,473 --training --depth=2

For one image. One MAC is a multiply and an add; FLOPs are 2 x MACs of convolutions and matrix products, all else being
left out (see scripts/layer_costs.py). No weights are made and no step is run.
"""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf
from absl import flags

import towers
from inputs import cifar10
from models import pspnet
from scripts import classifier, classifier_configuration, configuration, layer_costs, network
from scripts.commandline import UsageError

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "synthetic_pspnet.py"))
flags.adopt_module_key_flags(configuration)
FLAGS = flags.FLAGS
flags.DEFINE_list("input_size", None, "height,width in pixels; unset: what the configuration trains on.")
flags.DEFINE_bool("training", False, "The network as it is trained: with its auxiliary head, and with the backward pass.")
flags.DEFINE_integer("depth", None, "Add up layers by the first so many parts of their names.", lower_bound=1)
flags.DEFINE_string("output", None, "JSON file to write too.")


def main():
    is_classifier = classifier_configuration.describes_classifier(CONFIG.value)
    config = (classifier_configuration if is_classifier else configuration).load(CONFIG)
    height, width = input_size(config, is_classifier)
    with tf.Graph().as_default() as graph:
        build(config, height, width, FLAGS.training, is_classifier)
        costs = layer_costs.layer_costs(graph, "tower_0/")
    rows = layer_costs.grouped(costs, FLAGS.depth) if FLAGS.depth else costs
    total = layer_costs.total(costs)
    print(table(rows, total, FLAGS.training))
    print(summary(total, configuration.name(CONFIG), (height, width), FLAGS.training))
    if FLAGS.output:
        write(rows, total, (height, width), FLAGS.output)
        print("written: {}".format(FLAGS.output))


def input_size(config, is_classifier):
    """(height, width) from --input_size or the configuration; UsageError unless the network takes it."""
    size = (cifar10.SIZE, cifar10.SIZE) if is_classifier else config.input.crop_size
    if FLAGS.input_size is not None:
        try:
            height, width = size = tuple(map(int, FLAGS.input_size))
            if min(height, width) < 1:
                raise ValueError
        except ValueError:
            raise UsageError("--input_size={}: height,width in pixels are wanted, such as 713,713".format(
                ",".join(FLAGS.input_size))) from None
    if not is_classifier:
        config.input.crop_size = size
        network.check_crop(config, "input.crop_size")
    return size


def build(config, height, width, training, is_classifier):
    """Adds the network for one image to the default graph, on one tower."""
    config.model.norm_group_size = None  # one tower has no groups, and costs what it costs in one
    label = tf.zeros([1] if is_classifier else [1, height, width], tf.int32)
    trained = classifier.training_model(config) if is_classifier else network.training_model(config)

    def used(image, label):
        if is_classifier:
            return classifier.logits(image, config)
        return pspnet.pspnet(image, config.model, config.num_classes)

    example = {"image": tf.zeros([1, height, width, 3]), "label": label}
    towers.build(trained if training else used, [example], ["/cpu:0"], training=training)


def table(costs, total, training):
    """Text: a line a layer, and one for their sum."""
    wide = max(len(cost.name) for cost in costs) + 2
    head = "{:<{}}{:<14}{:>18}{:>14}{:>14}{:>9}".format(
        "layer", wide, "kind", "output", "parameters", "MMACs", "share")
    lines = [head + ("{:>16}".format("backward MMACs") if training else "")]
    for cost in list(costs) + [total]:
        output = "x".join(map(str, cost.output[1:])) if cost.kind not in ("", "matmul") and cost.output else ""
        line = "{:<{}}{:<14}{:>18}{:>14,}{:>14,.2f}{:>8.2f}%".format(
            cost.name, wide, cost.kind, output, cost.parameters, cost.macs / 1e6, 100 * cost.macs / max(total.macs, 1))
        lines.append(line + ("{:>16,.2f}".format(cost.backward / 1e6) if training else ""))
    return "\n".join(lines)


def summary(total, name, size, training):
    """The sums in words."""
    text = "{} at {}x{}: {:,} trainable parameters and {:,} others; an image is {}, forward".format(
        name, size[0], size[1], total.parameters, total.state, work(total.macs))
    return text + (", and {}, forward and backward".format(work(total.macs + total.backward)) if training else "")


def work(macs):
    """MACs and FLOPs in words."""
    unit, letter = (1e9, "G") if macs >= 1e9 else (1e6, "M")
    return "{:,.2f} {}MACs = {:,.2f} {}FLOPs".format(macs / unit, letter, 2 * macs / unit, letter)


def write(costs, total, size, path):
    """Writes the same as JSON, whole or not at all."""
    content = {"input_size": list(size), "total": total._asdict(), "layers": [cost._asdict() for cost in costs]}
    with open(path + ".partial", "w") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(path + ".partial", path)


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
