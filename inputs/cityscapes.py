"""Finds and checks the files of a data set in the Cityscapes layout.

    {root}/leftImg8bit/{split}/{city}/{name}_leftImg8bit.png
    {root}/gtFine/{split}/{city}/{name}_gtFine_labelIds.png        or, where that is not there,
    _gtFine_labelTrainIds.png

Any image size. Whatever is wrong with a file is a `DataError` in one line that names it. `check_examples`
finds it before a run writes anything; the data sets of `inputs.pipeline` find it again while reading (see
`inputs.decoding`).
"""

import collections
import concurrent.futures
import glob
import os

import numpy as np
from PIL import Image

from inputs import labels

IMAGE_SUFFIX = "_leftImg8bit.png"
LABEL_SUFFIXES = ("_gtFine_labelIds.png", "_gtFine_labelTrainIds.png")

_PNG_END = b"\x00\x00\x00\x00IEND\xaeB\x60\x82"
_THREADS = 8


class DataError(ValueError):
    """What is wrong with a data set, in one line that names the file."""


Example = collections.namedtuple("Example", "name city image_path label_path")


def holds_train_ids(label_path):
    """Whether a label file holds trainIds rather than labelIds, by its name."""
    return label_path.endswith(LABEL_SUFFIXES[1])


def list_examples(root, split, require_labels=True):
    """The examples of a split, a list of `Example` sorted by name.

    Args:
      root: the folder that holds leftImg8bit/ and gtFine/.
      split: 'train', 'val', 'test' or any other folder name.
      require_labels: False gives `label_path=None` where there is no label, instead of an error.

    Raises:
      DataError: no images; an image without its label; one name in two cities.
    """
    root = os.path.expanduser(str(root))
    folder = os.path.join(root, "leftImg8bit", split)
    paths = glob.glob(os.path.join(glob.escape(folder), "*", "*" + IMAGE_SUFFIX))
    if not paths:
        raise DataError(
            "no images found in %s: nothing matches */*%s there%s"
            % (folder, IMAGE_SUFFIX, _what_is_there(root, folder))
        )
    examples = {}
    for path in sorted(paths):
        city = os.path.basename(os.path.dirname(path))
        name = os.path.basename(path)[: -len(IMAGE_SUFFIX)]
        if name in examples:
            raise DataError(
                "two images have the name %s: %s and %s; rename one" % (name, examples[name].image_path, path)
            )
        candidates = [os.path.join(root, "gtFine", split, city, name + suffix) for suffix in LABEL_SUFFIXES]
        label = next((c for c in candidates if os.path.isfile(c)), None)
        if label is None and require_labels:
            raise DataError(
                "image without its label: %s has neither %s nor %s"
                % (path, candidates[0], os.path.basename(candidates[1]))
            )
        examples[name] = Example(name, city, path, label)
    return [examples[name] for name in sorted(examples)]


def _what_is_there(root, folder):
    if not os.path.isdir(root):
        return "; %s is not a folder" % root
    if os.path.isdir(folder):
        return ""
    above = os.path.dirname(folder)
    if not os.path.isdir(above):
        return "; %s has no folder leftImg8bit" % root
    return "; the splits there are: %s" % (", ".join(sorted(os.listdir(above))) or "none")


def check_examples(examples, full_bytes=300e6):
    """Reads the files' headers and raises a `DataError` for the first that a run could not use.

    Always checked: an image and its label are PNGs of one size, complete to the last chunk; the label is
    8-bit grey. Where all files together have at most `full_bytes` bytes, every chunk's checksum and every
    label's values are checked too (the photographs of CamVid, 40 MB: about a second; all of Cityscapes would
    take minutes and is left to the reader).

    Returns:
      a set of the (height, width) that occur.
    """
    if not examples:
        raise DataError("no examples to check: the list is empty")
    pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
    try:
        full = sum(pool.map(_bytes, examples)) <= full_bytes
        return set(pool.map(lambda example: _check(example, full), examples))
    finally:
        pool.shutdown()


def _bytes(example):
    paths = [p for p in (example.image_path, example.label_path) if p]
    missing = [p for p in paths if not os.path.isfile(p)]
    if missing:
        raise DataError("no such file: %s" % missing[0])
    return sum(os.path.getsize(p) for p in paths)


def _check(example, full):
    width, height = _header(example.image_path, full).size
    if example.label_path:
        label = _header(example.label_path, full)
        if label.size != (width, height):
            raise DataError(
                "image and label differ in size: %s is %dx%d, %s is %dx%d (width x height)"
                % ((example.image_path, width, height, example.label_path) + label.size)
            )
        if label.mode != "L" or label.depth != 8:
            raise DataError(
                "%s is no label: wanted 8-bit single-channel grey, found mode %s with %d bits"
                % (example.label_path, label.mode, label.depth)
            )
        if full:
            _check_values(example.label_path)
    return height, width


_Header = collections.namedtuple("_Header", "size mode depth")


def _header(path, full):
    """Size, mode and bits of a PNG, from PIL; raises unless it is one and is complete."""
    try:
        with open(path, "rb") as file:
            start = file.read(26)
            file.seek(max(os.path.getsize(path) - len(_PNG_END), 0))
            complete = file.read() == _PNG_END
        with Image.open(path) as image:
            if image.format != "PNG":
                raise DataError("%s is no PNG but %s" % (path, image.format))
            header = _Header(image.size, image.mode, start[24])
            if (
                full or not complete
            ):  # bytes after the last chunk are allowed: read the chunks before calling it truncated
                image.verify()
    except DataError:
        raise
    except (
        Exception
    ) as error:  # PIL raises OSError, SyntaxError, ValueError and struct.error for broken files
        raise DataError("cannot read %s: broken or truncated PNG (%s)" % (path, error)) from None
    return header


def _check_values(path):
    with Image.open(path) as image:
        try:
            values = np.flatnonzero(np.bincount(np.asarray(image).ravel(), minlength=256))
        except Exception as error:
            raise DataError("cannot read %s: broken or truncated PNG (%s)" % (path, error)) from None
    table = labels.TRAIN_ID_TABLE if holds_train_ids(path) else labels.LABEL_ID_TABLE
    unknown = values[table[values] < 0]
    if unknown.size:
        raise DataError(
            "%s holds the value %d, which is no Cityscapes %s"
            % (path, unknown[-1], "trainId" if holds_train_ids(path) else "labelId")
        )
