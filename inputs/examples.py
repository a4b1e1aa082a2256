"""An example is an image and its label: where its files are, and whether a run could use them.

Whatever is wrong with a file is a `DataError` in one line that names it. `check_examples` finds it before a
run writes anything; the data sets of `inputs.pipeline` find it again while reading (see `inputs.decoding`).
"""

import collections
import concurrent.futures
import os

import numpy as np

from inputs import labels
from inputs.image_files import DataError, decoded, opened

_PNG_END = b"\x00\x00\x00\x00IEND\xaeB\x60\x82"
_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
_GREYS = ("1", "L", "I", "I;16", "I;16B")
_THREADS = 8

Example = collections.namedtuple("Example", "name city image_path label_path encoding")
Example.__new__.__defaults__ = (labels.LABEL_ID_FILES,)
Example.__doc__ = """An image and its label.

name (unique in its split), city (the folder it is in), image_path (PNG or JPEG, by its extension), label_path
(PNG, or None) and encoding, the `labels.Encoding` of the label file's values.
"""


def check_examples(examples, full_bytes=300e6):
    """Reads the files' headers and raises a `DataError` for the first that a run could not use.

    Always checked: image and label are of the format that their extension says, of one size and, where they
    are PNGs, complete to the last chunk; the label is 8-bit grey. Where all files together have at most
    `full_bytes` bytes, each is decoded and every label's values are checked too (the photographs of
    CamVid, 40 MB: two seconds; all of Cityscapes would take minutes and is left to the reader).

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


def usable_examples(examples):
    """Reads all files of all examples through, however many: what `check_examples` would refuse is left out.

    A decoded image takes some 10 ms a megapixel and core.

    Returns:
      (the examples that a run can use, a list of (example, `DataError`) of the others), both in order.
    """

    def fault(example):
        try:
            if not example.label_path:
                raise DataError("image without its label: %s" % example.image_path)
            _bytes(example)
            _check(example, True)
        except DataError as error:
            return error
        return None

    pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
    try:
        faults = list(pool.map(fault, examples))
    finally:
        pool.shutdown()
    return ([example for example, found in zip(examples, faults) if not found],
            [(example, found) for example, found in zip(examples, faults) if found])


def image_sizes(examples):
    """The (height, width) of each example's image, from its header alone."""

    def size(example):
        with opened(example.image_path) as image:
            return image.size[::-1]

    pool = concurrent.futures.ThreadPoolExecutor(_THREADS)
    try:
        return list(pool.map(size, examples))
    finally:
        pool.shutdown()


def _bytes(example):
    paths = [p for p in (example.image_path, example.label_path) if p]
    missing = [p for p in paths if not os.path.isfile(p)]
    if missing:
        raise DataError("no such file: %s%s" % (missing[0], _instead(missing[0])))
    return sum(os.path.getsize(p) for p in paths)


def _instead(path):
    if os.path.isdir(path):
        return " (it is a folder)"
    return " (it is a symbolic link that leads nowhere)" if os.path.islink(path) else ""


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
                "%s is no label: wanted 8-bit single-channel grey with a class number a pixel, found mode %s with %d bits%s"
                % (example.label_path, label.mode, label.depth, "" if label.mode in _GREYS else
                   "; a picture of the labels in colour is none: give the file of numbers")
            )
        if full:
            _check_values(example.label_path, example.encoding)
    return height, width


_Header = collections.namedtuple("_Header", "size mode depth")


def _header(path, full):
    """Size, mode and bits of a file, from PIL; raises unless it is what its extension says and is complete."""
    wanted = _FORMATS.get(os.path.splitext(path)[1].lower(), "PNG")
    with opened(path, "a " + wanted) as image:
        with open(path, "rb") as file:
            start = file.read(26)
            file.seek(max(os.path.getsize(path) - len(_PNG_END), 0))
            complete = wanted != "PNG" or file.read() == _PNG_END
        if image.format != wanted:
            raise DataError("%s is no %s but %s: convert it, or give it its own extension" % (path, wanted, image.format))
        header = _Header(image.size, image.mode, start[24])
        # Bytes after the last chunk are allowed: read the chunks before calling it truncated.
        if wanted == "PNG" and (full or not complete):
            image.verify()  # the chunks' checksums; it closes the file
    if full:
        with decoded(path, "a " + wanted):
            pass
    return header


def _check_values(path, encoding):
    with opened(path, "a PNG") as image:
        values = np.flatnonzero(np.bincount(np.asarray(image).ravel(), minlength=256))
    unknown = values[encoding.table[values] < 0]
    if unknown.size:
        raise DataError("%s holds the value %d, which is no %s" % (path, unknown[-1], encoding.name))
