"""Images with the size and the file size of street photographs, and labels: for the input pipeline.

Flat drawings would be decoded in no time: a PNG's cost is in what cannot be predicted. So an image is smooth structure and the
noise of a sensor, standard deviation 1.2, which makes a PNG of 2048x1024 about as large as one of Cityscapes (2.3 MB).
"""

import os

import numpy as np
from PIL import Image

DISTINCT = 6
_IDS = (7, 8, 11, 21, 23, 24, 26, 0)  # road, pavement, building, vegetation, sky, person, car, unlabelled


def draw(folder, number, size):
    """Writes what is missing of `number` images and labels of `size` (height, width); returns their paths, in pairs."""
    os.makedirs(folder, exist_ok=True)
    paths = []
    for k in range(number):
        stem = os.path.join(folder, "{}x{}_{:02}".format(size[1], size[0], k))
        paths.append((stem + "_image.png", stem + "_label.png"))
        if not all(map(os.path.exists, paths[-1])):
            for path, pixels in zip(paths[-1], photograph(size, k)):
                Image.fromarray(pixels).save(path + ".partial", format="PNG")
                os.replace(path + ".partial", path)
    return paths


def photograph(size, seed):
    """An image [H, W, 3] uint8 and its labelIds [H, W] uint8."""
    rng = np.random.RandomState(seed)
    height, width = size

    def smooth(cells):
        coarse = rng.uniform(0, 255, (max(height // cells, 2), max(width // cells, 2), 3)).astype(np.uint8)
        return np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC), np.float32)

    image = 0.6 * smooth(256) + 0.3 * smooth(48) + 0.1 * smooth(8) + rng.normal(scale=1.2, size=(height, width, 3))
    coarse = rng.randint(len(_IDS), size=(max(height // 64, 2), max(width // 64, 2))).astype(np.uint8)
    regions = np.asarray(Image.fromarray(coarse).resize((width, height), Image.NEAREST))
    return np.clip(image, 0, 255).astype(np.uint8), np.uint8(_IDS)[regions]
