"""Draws what a training run sees: augmented samples, their labels over them, and what was drawn for each.

    python scripts/browse_dataset.py
    python scripts/browse_dataset.py --config=configs/cityscapes_pspnet50.py --data_dir=/data/cityscapes --start_step=500

The samples are those of the run itself, from the batch of step --start_step on: the same order, the same crops.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
from scripts import commandline

commandline.quiet_tensorflow()

import numpy as np
import tensorflow.compat.v1 as tf
from absl import flags

from scripts import configuration, datasets, pictures, samples
from scripts.commandline import UsageError

CONFIG = configuration.define_flag(os.path.join(ROOT, "configs", "synthetic_pspnet.py"))
flags.adopt_module_key_flags(configuration)
FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Folder of the data set; unset: drawn scenes, kept in data/synthetic.")
flags.DEFINE_string("split", None, "Split to draw from; unset: the configuration's train_split.")
flags.DEFINE_string("output", None, "PNG to write; unset: browse_NAME_OF_THE_CONFIGURATION.png in this folder.")
flags.DEFINE_integer("num_images", 12, "Samples to draw.", lower_bound=1)
flags.DEFINE_integer("start_step", 0, "The step of the run whose batch comes first.", lower_bound=0)
flags.DEFINE_integer("columns", 3, "Samples in a row.", lower_bound=1)
flags.DEFINE_integer("width", 560, "Pixels across a sample: its image and, beside it, its label.", lower_bound=40)


def main():
    config = configuration.load(CONFIG)
    split = FLAGS.split or config.train_split
    output = FLAGS.output or "browse_{}.png".format(configuration.name(CONFIG))
    if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
        raise UsageError("--output={}: its folder does not exist".format(output))
    examples = datasets.open_split(config, FLAGS.data_dir, split)
    data_set, cells, seen = datasets.of(config), [], set()
    for number, sample in enumerate(samples.seen_from(config, examples, FLAGS.start_step, FLAGS.num_images)):
        name, words = examples[sample.index].name, samples.describe(sample.drawn)
        print("{:>4}  epoch {:<3} {}  {}".format(number, sample.epoch, name, words))
        cells.append((["{}, epoch {}".format(name, sample.epoch), words], samples.panel(sample, data_set.colors)))
        seen |= set(np.unique(sample.label))
    title = "{}, split {}, from step {}: crops of {}x{}".format(
        configuration.name(CONFIG), split, FLAGS.start_step, *config.input.crop_size)
    key = (data_set.colors, data_set.class_names, [c for c in sorted(map(int, seen)) if c < data_set.num_classes])
    pictures.save(pictures.sheet(cells, FLAGS.columns, FLAGS.width, title, key), output)
    print("written: {}".format(output))


if __name__ == "__main__":
    tf.disable_eager_execution()
    commandline.run(main)
