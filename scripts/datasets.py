"""The examples a configuration names: photographs in the Cityscapes layout, or scenes drawn on first use."""

import os
import sys

import tqdm

from inputs import cityscapes, synthetic
from scripts.commandline import UsageError

SYNTHETIC_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "synthetic")


def open_split(config, data_dir, split, max_images=None):
    """The checked examples of one split, sorted by name; the first `max_images` of them.

    Raises:
        UsageError: no --data_dir where the configuration needs one.
        inputs.cityscapes.DataError: what is wrong with the files, in one line.
    """
    examples = cityscapes.list_examples(_root(config, data_dir), split)[:max_images]
    cityscapes.check_examples(examples)
    return examples


def _root(config, data_dir):
    if config.dataset == "synthetic":
        root = data_dir or SYNTHETIC_DIR
        values = config.synthetic
        bar = tqdm.tqdm(
            total=values.num_train + values.num_val,
            unit="scene",
            desc="drawing street scenes",
            delay=1,
            disable=not sys.stderr.isatty(),
        )
        with bar:
            drawn = synthetic.ensure(
                root,
                values.num_train,
                values.num_val,
                values.height,
                values.width,
                values.seed,
                progress=lambda done, of: bar.update(1),
            )
        if drawn:
            print("drew {} street scenes into {}".format(values.num_train + values.num_val, root), flush=True)
        return root
    if not data_dir:
        raise UsageError("--data_dir is missing: name the folder that holds leftImg8bit and gtFine")
    return data_dir
