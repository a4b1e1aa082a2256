"""Opens image files with PIL, and says in one line why one of them cannot be used.

An image that claims more pixels than PIL's limit, 178,956,970, is refused by its header, before anything is allocated: a
file of a few kilobytes can claim 60000x60000, which would fill the memory.
"""

import contextlib
import os
import re

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
