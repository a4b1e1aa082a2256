"""The data sets that a configuration can name: their classes and colours, and where their examples are.

    cityscapes   photographs in the Cityscapes layout
    synthetic    scenes in the same layout, drawn on first use
    ade20k       the ADE20K scene parsing challenge

`of(config)` says what the scripts have to know of a data set; nothing else in them depends on which it is.
"""

import collections
import os
import sys

import numpy as np
import tqdm

from inputs import ade20k, cityscapes, labels, synthetic
from inputs.examples import check_examples, image_sizes
from scripts.commandline import UsageError

SYNTHETIC_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "synthetic")


class DataSet(collections.namedtuple("DataSet", "class_names colors file_values layout list_examples")):
    """What the scripts know of a data set.

    class_names: C strings.
    colors: [C, 3] uint8, for pictures.
    file_values: [256] integers: what a label file holds for a class.
    layout: the folders that --data_dir must hold, in words.
    list_examples: function of (root, split, require_labels=True) to a list of `inputs.examples.Example`.
    """

    @property
    def num_classes(self):
        return len(self.class_names)

    @property
    def palette(self):
        """[256, 3] uint8: the colour of every label value, black where it is no class."""
        palette = np.zeros((256, 3), np.uint8)
        palette[: self.num_classes] = self.colors
        return palette


_CITYSCAPES = DataSet(
    labels.CLASS_NAMES,
    labels.COLORS,
    labels.train_id_to_label_id,
    "leftImg8bit and gtFine",
    cityscapes.list_examples,
)
DATA_SETS = {
    "cityscapes": _CITYSCAPES,
    "synthetic": _CITYSCAPES,
    "ade20k": DataSet(
        ade20k.CLASS_NAMES,
        ade20k.COLORS,
        ade20k.FILE_VALUES,
        "images and annotations",
        ade20k.list_examples,
    ),
}


def of(config):
    """The `DataSet` of a configuration."""
    return DATA_SETS[config.dataset]


def open_split(config, data_dir, split, max_images=None, draw=True):
    """The checked examples of one split, sorted by name; the first `max_images` of them.

    With `draw=False` nothing is written: scenes that are not there yet are listed as they would be drawn.

    Raises:
        UsageError: no --data_dir where the configuration needs one.
        inputs.examples.DataError: what is wrong with the files, in one line.
    """
    examples, there = list_split(config, data_dir, split, draw)
    examples = examples[:max_images]
    if there:
        check_examples(examples)
    return examples


def list_split(config, data_dir, split, draw=True, require_labels=True):
    """The examples of one split, sorted by name, not yet checked, and whether their files are there. As `open_split`.

    With `require_labels=False` an image without its label is listed, with None for it.
    """
    if config.dataset == "synthetic":
        root = data_dir or SYNTHETIC_DIR
        if not draw and not synthetic.is_drawn(root, **_scenes(config)):
            return synthetic.planned_examples(root, split, **_scenes(config)), False
        _draw(config, root)
    elif not data_dir:
        raise UsageError("--data_dir is missing: name the folder that holds " + of(config).layout)
    else:
        root = data_dir
    return of(config).list_examples(root, split, require_labels), True


def sizes(config, examples):
    """The (height, width) of each example's image, in pixels."""
    if config.dataset == "synthetic":  # they may not be drawn yet
        return [(config.synthetic.height, config.synthetic.width)] * len(examples)
    return image_sizes(examples)


def _scenes(config):
    return config.synthetic.to_dict()


def _draw(config, root):
    total = config.synthetic.num_train + config.synthetic.num_val
    bar = tqdm.tqdm(
        total=total, unit="scene", desc="drawing street scenes", delay=1, disable=not sys.stderr.isatty()
    )
    with bar:
        drawn = synthetic.ensure(root, progress=lambda done, of: bar.update(1), **_scenes(config))
    if drawn:
        print("drew {} street scenes into {}".format(total, root), flush=True)
