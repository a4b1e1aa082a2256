"""The recipe's augmentation in OpenCV, in semseg's order, on whole frames: the crop is cut last.

    read → scale → rotate → blur → mirror → pad and crop → normalise

The numbers are drawn elsewhere (`inputs.augmentation.draw_parameters`), so that it can be held against `inputs.augmentation`.
OpenCV leaves Python's lock while it works: the workers are threads, and OpenCV's own are off.
"""

import collections
import concurrent.futures

import cv2
import numpy as np

from inputs import labels

PREFETCH = 2  # crops that are ready beside those in the making


def crops(jobs, workers):
    """Yields (image, label) of jobs (image path, label path, drawn numbers, params), in order, from worker threads."""
    cv2.setNumThreads(0)
    waiting = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(read_and_augment, *job))
                if len(waiting) == workers + PREFETCH:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def read_and_augment(image_path, label_path, drawn, params):
    """The crop of one example: ([h, w, 3] float32 normalised RGB, [h, w] int32 classes or 255)."""
    image = cv2.cvtColor(cv2.imread(image_path, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    label = cv2.imread(label_path, cv2.IMREAD_GRAYSCALE)
    return augment(image, cv2.LUT(label, _TABLE), drawn, params)


def augment(image, label, drawn, params):
    """`inputs.augmentation` on whole frames [H, W, 3] uint8 and [H, W] uint8, but for rounding to whole grey values."""
    height, width = (max(1, int(np.rint(np.float32(size) * np.float32(drawn["scale"])))) for size in label.shape)
    image = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
    label = cv2.resize(label, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
    if drawn["rotate"]:
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), float(drawn["degrees"]), 1)
        image = cv2.warpAffine(image, turn, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT,
                               borderValue=params.mean)
        label = cv2.warpAffine(label, turn, (width, height), flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT,
                               borderValue=labels.IGNORE)
    if drawn["blur"]:
        image = cv2.GaussianBlur(image, (5, 5), 0)
    if drawn["flip"]:
        image, label = cv2.flip(image, 1), cv2.flip(label, 1)
    pad = [max(crop - size, 0) for crop, size in zip(params.crop_size, label.shape)]
    if any(pad):
        sides = (pad[0] // 2, pad[0] - pad[0] // 2, pad[1] // 2, pad[1] - pad[1] // 2)
        image = cv2.copyMakeBorder(image, *sides, cv2.BORDER_CONSTANT, value=params.mean)
        label = cv2.copyMakeBorder(label, *sides, cv2.BORDER_CONSTANT, value=labels.IGNORE)
    slack = [size - crop for size, crop in zip(label.shape, params.crop_size)]
    top, left = (min(int(np.float32(place) * np.float32(room + 1)), room)
                 for place, room in zip((drawn["crop_y"], drawn["crop_x"]), slack))
    window = slice(top, top + params.crop_size[0]), slice(left, left + params.crop_size[1])
    image = (image[window].astype(np.float32) - np.float32(params.mean)) * (1 / np.float32(params.std))
    return image, label[window].astype(np.int32)


_TABLE = np.where(labels.LABEL_ID_FILES.table < 0, labels.IGNORE, labels.LABEL_ID_FILES.table).astype(np.uint8)
