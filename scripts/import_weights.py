"""Turns another code base's pretrained weights into a checkpoint that train.py starts from.

    python scripts/import_weights.py --weights=resnet_v1_101.ckpt --format=slim --output=pretrained/slim101 \\
        --config=configs/cityscapes_pspnet101.py --config.model.stem=7x7
    python scripts/train.py --config=configs/cityscapes_pspnet101.py --config.model.stem=7x7 \\
        --config.init_checkpoint=pretrained/slim101 ...

Prints what became of every name; any that does not fit is an error, unless --allow names it. --output is a folder, or
the prefix of a checkpoint if it ends in .ckpt. Where the weights are a whole network's (--format=semseg), evaluate.py
and predict.py take the folder as their --model_dir. `models/pretrained/formats.py` describes the formats.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import tensorflow.compat.v1 as tf
from absl import flags

import towers
from models import pretrained, pspnet
from scripts import configuration, initial_weights
from scripts.commandline import UsageError

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "cityscapes_pspnet50.py"))
flags.adopt_module_key_flags(configuration)
FLAGS = flags.FLAGS
flags.DEFINE_string("weights", None, "The file, or the prefix of a TensorFlow checkpoint.")
flags.DEFINE_enum("format", None, sorted(pretrained.FORMATS), "Whose names and layout they have.")
flags.DEFINE_string("output", None, "Folder for the checkpoint, or its prefix if it ends in .ckpt.")
flags.DEFINE_multi_string(
    "allow", [], "Shell pattern of names (theirs or ours) that may be left out, such as 'pspnet/aux/*'; repeatable."
)
flags.DEFINE_bool("overwrite", False, "Replace a checkpoint that is there already.")
flags.DEFINE_bool("table", False, "Print a line for every name too.")


def main():
    for name in ("weights", "format", "output"):
        if not FLAGS[name].value:
            raise UsageError("--{} is missing: {}".format(name, FLAGS[name].help))
    config = configuration.load(CONFIG)
    check_network(config, pretrained.FORMATS[FLAGS.format])
    prefix = output_prefix(FLAGS.output)
    arrays = pretrained.read(FLAGS.weights)
    shapes = network_shapes(config)
    try:
        values, report = pretrained.convert(
            arrays, FLAGS.format, shapes, config.input.mean, config.input.std,
            config.model.pyramid_bins, config.model.norm_epsilon, FLAGS.allow)
    except pretrained.WeightsMismatch as error:
        print(error.report.summary())
        raise
    if FLAGS.table:
        print(report.table())
    print(report.summary())
    folder = os.path.dirname(prefix)
    if folder:
        os.makedirs(folder, exist_ok=True)
    initial_weights.write(prefix, values, config)
    if prefix != FLAGS.output:
        if all(name in values for name in shapes if not name.startswith("pspnet/aux/")):
            configuration.save(config, folder)  # evaluate.py and predict.py want no auxiliary head
        tf.train.update_checkpoint_state(folder, os.path.basename(prefix))
    print("written: {}".format(prefix))


def check_network(config, entry):
    """UsageError unless the configured network is one that weights of this format are for."""
    if entry.name != "towers" and config.model.backbone not in ("resnet50", "resnet101"):
        raise UsageError("config.model.backbone is {!r}: there are weights for resnet50 and resnet101".format(
            config.model.backbone))
    if entry.stem not in (None, config.model.stem):
        raise UsageError("config.model.stem is {!r} and format {} has the stem {!r}: give --config.model.stem={}, here and "
                         "for train.py".format(config.model.stem, entry.name, entry.stem, entry.stem))


def output_prefix(output):
    """Prefix of the checkpoint to write; UsageError where something is in the way."""
    if output.endswith(".ckpt") and not os.path.isdir(output):
        prefix, taken = output, output + ".index"
    else:
        prefix, taken = os.path.join(output, "model.ckpt-0"), os.path.join(output, "checkpoint")
    if os.path.exists(output) and prefix != output and not os.path.isdir(output):
        raise UsageError("--output={} is a file: name a folder, or a prefix that ends in .ckpt".format(output))
    if os.path.exists(taken) and not FLAGS.overwrite:
        raise UsageError("{} is there already: use --overwrite or another --output".format(taken))
    return prefix


def network_shapes(config):
    """Name to shape of the variables of the network as it is trained, auxiliary head included."""
    with tf.Graph().as_default():
        image = tf.zeros((1,) + tuple(config.input.crop_size) + (3,))
        towers.build(lambda x: pspnet.pspnet(x, config.model, config.num_classes), [(image,)], ["/cpu:0"], training=True)
        return {v.op.name: v.shape.as_list() for v in tf.global_variables()}


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
