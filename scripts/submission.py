"""What the Cityscapes benchmark takes: one label picture an image, its names, and what may be wrong with a folder of them.

For every image CITY_SEQUENCE_FRAME_leftImg8bit.png of a split, one file CITY_SEQUENCE_FRAME*.png, in any folder: an
8-bit PNG of a single channel, of the image's own size, with the labelIds of the 19 classes that are scored. The
server looks files up by that pattern, so two that match one image are an error there.
"""

import collections
import concurrent.futures
import os
import re

import numpy as np
from PIL import Image

from inputs import cityscapes, labels
from scripts.commandline import UsageError

SUFFIX = "_labelIds.png"  # what follows the image's name in a file that predict.py writes
VALID_IDS = np.unique(labels.train_id_to_label_id[list(labels.TRAIN_IDS)])

_NAME = re.compile(r"[^_]+_\d{6}_\d{6}")
_IMAGE_SUFFIX = "_leftImg8bit"
_THREADS = 4


def image_name(path):
    """CITY_SEQUENCE_FRAME of an image file; UsageError where it is not called so."""
    name = os.path.splitext(os.path.basename(path))[0]
    name = name[: -len(_IMAGE_SUFFIX)] if name.endswith(_IMAGE_SUFFIX) else name
    if not _NAME.fullmatch(name):
        raise UsageError(
            "{} has no name that a submission can have: wanted CITY_SEQUENCE_FRAME_leftImg8bit.png with six digits each, as "
            "in Cityscapes; leave out --submission, or rename it".format(path)
        )
    return name


def images_of_split(data_dir, split):
    """The paths of a split's images, labels or none, by name: a dict."""
    examples = cityscapes.list_examples(data_dir, split, require_labels=False)
    return {image_name(example.image_path): example.image_path for example in examples}


def faults(folder, images):
    """All that the server would refuse or misread in a folder.

    Args:
        folder: is searched with all below it.
        images: a dict from CITY_SEQUENCE_FRAME to the path of the image.

    Returns:
        A list of lines, one a fault, and the number of images that have exactly one file without fault.
    """
    found, told = collections.defaultdict(list), []
    for path in _files(folder):
        name = _NAME.match(os.path.basename(path))
        if name is None or name.group() not in images or not path.endswith(".png"):
            told.append("surplus: {} belongs to no image of the split".format(path))
        else:
            found[name.group()].append(path)
    for name in sorted(set(images) - set(found)):
        told.append("missing: no file {}*.png for {}".format(name, images[name]))
    for name, paths in sorted(found.items()):
        if len(paths) > 1:
            told.append("twice: {} all stand for {}".format(" and ".join(paths), images[name]))
    alone = sorted(name for name, paths in found.items() if len(paths) == 1)
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        checked = list(pool.map(lambda name: _fault(found[name][0], images[name]), alone))
    told += [line for line in checked if line]
    return told, len([line for line in checked if not line])


def _files(folder):
    return sorted(os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)


def _fault(path, image_path):
    """What is wrong with one file, in a line; None where nothing is."""
    try:
        with Image.open(path) as picture:
            kind, mode, size = picture.format, picture.mode, picture.size
            values = np.array(picture)
    except Exception as error:  # PIL raises OSError, SyntaxError, ValueError and struct.error for broken files
        return "unreadable: {} ({})".format(path, error)
    if kind != "PNG":
        return "format: {} is {}, wanted PNG".format(path, kind)
    if mode != "L":
        return "mode: {} is {}, wanted L: 8 bits, one channel, no palette".format(path, mode)
    if _bits(path) != 8:
        return "mode: {} has {} bits a pixel, wanted 8".format(path, _bits(path))
    with Image.open(image_path) as image:
        if size != image.size:
            return "size: {} is {}x{}, but {} is {}x{} (width x height)".format(
                path, size[0], size[1], image_path, image.size[0], image.size[1])
    present = np.flatnonzero(np.bincount(values.ravel(), minlength=256))
    wrong = [int(value) for value in present if value not in VALID_IDS]
    if wrong:
        hint = ""
        if all(value < labels.NUM_CLASSES or value == labels.IGNORE for value in present):
            hint = "; these look like trainIds: map them to labelIds"
        return "ids: {} holds {}: wanted labelIds of the {} scored classes only{}".format(
            path, ", ".join(map(str, wrong)), len(VALID_IDS), hint)
    return None


def _bits(path):
    with open(path, "rb") as file:
        return file.read(25)[24]
