"""Finds the files of the ADE20K scene parsing challenge, and names its 150 classes.

    {root}/images/{split}/{name}.jpg            split: training (20,210 images) or validation (2,000)
    {root}/annotations/{split}/{name}.png       8-bit grey: 0 is ignored, value v is class v - 1

That is how ADEChallengeData2016.zip unpacks (its folder is the root). Images have many sizes. The classes and
their order are those of the archive's objectInfo150.txt, of which the first name of each is kept. The
challenge gives no colours with the images; these are drawn by a formula, far apart for neighbouring numbers.
"""

import glob
import os

import numpy as np

from inputs.examples import DataError, Example
from inputs.labels import IGNORE, UNKNOWN, Encoding

CLASS_NAMES = tuple("""
    wall, building, sky, floor, tree, ceiling, road, bed, windowpane, grass,
    cabinet, sidewalk, person, earth, door, table, mountain, plant, curtain, chair,
    car, water, painting, sofa, shelf, house, sea, mirror, rug, field,
    armchair, seat, fence, desk, rock, wardrobe, lamp, bathtub, railing, cushion,
    base, box, column, signboard, chest of drawers, counter, sand, sink, skyscraper, fireplace,
    refrigerator, grandstand, path, stairs, runway, case, pool table, pillow, screen door, stairway,
    river, bridge, bookcase, blind, coffee table, toilet, flower, book, hill, bench,
    countertop, stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade machine, hovel,
    bus, towel, light, truck, tower, chandelier, awning, streetlight, booth, television receiver,
    airplane, dirt track, apparel, pole, land, bannister, escalator, ottoman, bottle, buffet,
    poster, stage, van, ship, fountain, conveyer belt, canopy, washer, plaything, swimming pool,
    stool, barrel, basket, waterfall, tent, bag, minibike, cradle, oven, ball,
    food, step, tank, trade name, microwave, pot, animal, bicycle, lake, dishwasher,
    screen, blanket, sculpture, hood, sconce, vase, traffic light, tray, ashcan, fan,
    pier, crt screen, plate, monitor, bulletin board, shower, radiator, glass, clock, flag
    """.replace("\n", " ").strip().split(", "))
CLASS_NAMES = tuple(" ".join(name.split()) for name in CLASS_NAMES)
NUM_CLASSES = 150


def _colors():
    """[150, 3] uint8: of six levels a channel, each as far as can be from those before it, and neither grey nor black."""
    levels = np.stack(np.meshgrid(*[np.arange(0, 256, 51)] * 3, indexing="ij"), -1).reshape(-1, 3)
    levels = levels[(np.ptp(levels, axis=1) > 0) & (levels.sum(axis=1) > 102)]
    chosen = [levels[np.argmax(levels[:, 0])]]
    distance = np.full(len(levels), np.inf)
    while len(chosen) < NUM_CLASSES:
        distance = np.minimum(distance, np.square(levels - chosen[-1]).sum(axis=1))
        chosen.append(levels[np.argmax(distance)])
    return np.array(chosen, np.uint8)


def _encoding():
    table = UNKNOWN - np.arange(256, dtype=np.int32)
    table[1 : NUM_CLASSES + 1] = np.arange(NUM_CLASSES)
    table[0] = IGNORE
    return Encoding("ADE20K class number (0..150)", table)


COLORS = _colors()
ENCODING = _encoding()
# [256] uint8: the value in a label file of a class; 0 for what is no class.
FILE_VALUES = np.concatenate([np.arange(1, NUM_CLASSES + 1), np.zeros(256 - NUM_CLASSES)]).astype(np.uint8)


def list_examples(root, split, require_labels=True):
    """The examples of a split, a list of `Example` sorted by name; `city` is the split.

    Args:
      root: the folder that holds images/ and annotations/.
      split: 'training', 'validation' or any other folder name.
      require_labels: False gives `label_path=None` where there is no label, instead of an error.

    Raises:
      DataError: no images; an image without its label.
    """
    root = os.path.expanduser(str(root))
    folder = os.path.join(root, "images", split)
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "*.jpg")))
    if not paths:
        there = sorted(os.listdir(os.path.dirname(folder))) if os.path.isdir(os.path.dirname(folder)) else []
        raise DataError(
            "no images found in %s: nothing matches *.jpg there; the splits of %s are: %s"
            % (folder, root, ", ".join(there) or "none, as it has no folder images")
        )
    examples = []
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        label = os.path.join(root, "annotations", split, name + ".png")
        if not os.path.isfile(label):
            if require_labels:
                raise DataError("image without its label: %s has no %s" % (path, label))
            label = None
        examples.append(Example(name, split, path, label, ENCODING))
    return examples
