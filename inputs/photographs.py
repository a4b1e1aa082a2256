"""Finds image files and reads one in Python, for prediction: whatever a viewer shows, as RGB, without TensorFlow."""

import os

import numpy as np
from PIL import ImageOps

from inputs.image_files import DataError, decoded

IMAGE_EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp")


def list_images(path):
    """The image files that `path` names: itself, or all in that folder and below, sorted; DataError if
    there are none.
    """
    path = os.path.expanduser(str(path))
    if os.path.isfile(path):
        return [path]
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(IMAGE_EXTENSIONS)
    ]
    if not found:
        raise DataError(
            "no images found: %s is neither a file nor a folder with files *{%s}"
            % (path, ",".join(IMAGE_EXTENSIONS))
        )
    return sorted(found)


def load_image(path, upright=True):
    """Reads one image: [H, W, 3] uint8 RGB, or a DataError.

    Args:
      path: a file.
      upright: turn and mirror the pixels as the file's EXIF orientation says, which is how viewers show it (a
        phone held upright writes lying pixels and a note). False: as they are stored, which is what
        `decoding.read_image` gives and what labels are drawn on.
    """
    with decoded(path) as image:
        if upright:
            image = _upright(image)
        values = np.asarray(image) if image.mode[0] in "IF" else None
        if values is not None:
            if image.mode == "F" or values.min() < 0 or values.max() > 65535:
                raise DataError("cannot read %s as an image (its values are not of 8 or 16 bits, mode %s: convert it)" % (
                    path, image.mode))
            # PIL's own conversion of 16 bits clips at 255 where decoders keep the high byte.
            return np.repeat((values.astype(np.uint32) >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
        return np.array(image.convert("RGB"))


def _upright(image):
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # a spoilt EXIF block; viewers show the pixels as they are
        return image
