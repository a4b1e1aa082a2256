"""Opens image files with PIL, and says in one line why one of them cannot be used.

An image that claims more pixels than PIL's limit, 178,956,970, is refused by its header, before anything is allocated: a
file of a few kilobytes can claim 60000x60000, which would fill the memory.

PIL takes a PNG whose rows end early for whole and leaves the rest black; `decoded` counts the rows.
"""

import contextlib
import os
import re
import zlib

from PIL import Image, UnidentifiedImageError

_SIGNS = (
    (b"version https://git-lfs", "a Git LFS pointer and no image: fetch the file that it stands for"),
    (b"\x89PNG\r\n\x1a\n", "a broken or truncated PNG: fetch it again"),
    (b"\xff\xd8\xff", "a broken or truncated JPEG: fetch it again"),
    (b"<", "a text such as a web page and no image: fetch the file itself"),
)


class DataError(ValueError):
    """What is wrong with a data set, in one line that names the file."""


@contextlib.contextmanager
def opened(path, as_what="an image"):
    """PIL's image of a file, closed at the end; whatever goes wrong with it inside is a `DataError` that names the file.

    PIL raises OSError, SyntaxError, ValueError, struct.error and more for broken files, hence all kinds are taken.
    """
    try:
        with Image.open(path) as image:
            yield image
    except DataError:
        raise
    except Exception as error:
        raise DataError("cannot read %s as %s (%s)" % (path, as_what, _reason(path, error))) from None


@contextlib.contextmanager
def decoded(path, as_what="an image"):
    """As `opened`, the pixels read and every row there."""
    with opened(path, as_what) as image:
        if image.format == "PNG":
            _require_all_rows(path)
        image.load()
        yield image


def _require_all_rows(path):
    """ValueError unless a PNG's compressed stream holds as many bytes as its header's size has."""
    with open(path, "rb") as file:
        content = memoryview(file.read())
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    bits, color, interlaced = content[24], content[25], content[28]
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(color, 1)
    missing = sum(rows * (1 + (columns * samples * bits + 7) // 8) for rows, columns in _passes(height, width, interlaced))
    inflate, place = zlib.decompressobj(), 8
    while missing > 0 and place + 8 <= len(content):
        length, name = int.from_bytes(content[place : place + 4], "big"), bytes(content[place + 4 : place + 8])
        waiting = bytes(content[place + 8 : place + 8 + length]) if name == b"IDAT" else b""
        while waiting and missing > 0:
            missing -= len(inflate.decompress(waiting, 1 << 20))
            waiting = inflate.unconsumed_tail
        place += length + 12
    if missing > 0:
        raise ValueError("{:,} bytes of its rows are missing".format(missing))


def _passes(height, width, interlaced):
    """(rows, columns) of each pass over the pixels: one, or the seven of Adam7."""
    if not interlaced:
        return [(height, width)]
    steps = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))
    sizes = [(len(range(top, height, down)), len(range(left, width, right))) for top, down, left, right in steps]
    return [(rows, columns) for rows, columns in sizes if rows and columns]


def _reason(path, error):
    if isinstance(error, Image.DecompressionBombError):
        pixels, limit = (int(number) for number in re.findall(r"\d+", str(error))[:2])
        return "its header claims {:,} pixels, above the limit of {:,}: cut it up, or leave it out".format(pixels, limit)
    if os.path.isdir(path):
        return "it is a folder"
    if os.path.islink(path) and not os.path.exists(path):
        return "it is a symbolic link that leads nowhere"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnidentifiedImageError):
        with open(path, "rb") as file:
            head = file.read(32)
        if not head:
            return "it is empty, 0 bytes: fetch it again"
        found = next((what for sign, what in _SIGNS if head.lstrip().startswith(sign)), None)
        return "it is " + (found or "no image of a known kind: it begins with %r" % head[:16])
    return "broken or truncated: %s" % (" ".join(str(error).split()) or type(error).__name__)
