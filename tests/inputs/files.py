"""Writes small data sets in the Cityscapes layout for the tests, with PIL."""

import os

import numpy as np
from PIL import Image


def paths(root, name, split="train", city="town", label="labelIds"):
    folder = [os.path.join(str(root), kind, split, city) for kind in ("leftImg8bit", "gtFine")]
    for f in folder:
        os.makedirs(f, exist_ok=True)
    return os.path.join(folder[0], name + "_leftImg8bit.png"), os.path.join(
        folder[1], "%s_gtFine_%s.png" % (name, label)
    )


def write_pair(root, name, size=(12, 20), seed=0, image=None, label=None, **where):
    """One image and its label; random where none is given. Returns (image, label) as written."""
    rng = np.random.RandomState(seed)
    image = rng.randint(0, 256, size + (3,)).astype(np.uint8) if image is None else image
    label = rng.choice([0, 1, 7, 8, 11, 24, 26, 33, 255], size).astype(np.uint8) if label is None else label
    image_path, label_path = paths(root, name, **where)
    Image.fromarray(image).save(image_path)
    Image.fromarray(label).save(label_path)
    return image, label


def damage(path, how):
    """Spoils a file in place.

    'half' cuts it in two, 'tail' takes its last chunk, 'flip' alters a byte in the middle, 'empty' leaves
    nothing, 'text' leaves words.
    """
    with open(path, "rb") as file:
        data = file.read()
    middle = len(data) // 2
    data = {
        "half": data[:middle],
        "tail": data[:-12],
        "flip": data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :],
        "empty": b"",
        "text": b"these are words, not a picture. " * 8,
    }[how]
    with open(path, "wb") as file:
        file.write(data)
