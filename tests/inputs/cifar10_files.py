"""Made pictures in the files of CIFAR-10's binary version: ten classes that a small network can learn."""

import os

import numpy as np

from inputs import cifar10


def pictures(number, seed):
    """(images [n, 32, 32, 3] uint8, labels [n]): stripes of a width and a colour by class, under noise.

    No class is another one's mirror image, as mirroring is among the augmentations.
    """
    rng = np.random.RandomState(seed)
    labels = rng.permutation(np.arange(number) % 10)
    x = np.tile(np.arange(32), [32, 1])
    images = np.zeros([number, 32, 32, 3])
    for k, label in enumerate(labels):
        stripes = np.sin(x * (0.2, 0.4, 0.7, 1.2, 2.0)[label % 5] + rng.uniform(0, 2 * np.pi))
        color = np.array([0.9, 0.5, 0.2] if label < 5 else [0.2, 0.5, 0.9])
        images[k] = 120 + 80 * stripes[..., None] * color + 20 * color + rng.normal(scale=25, size=[32, 32, 3])
    return np.clip(images, 0, 255).astype(np.uint8), labels.astype(np.uint8)


def records(images, labels):
    """The bytes of a file, written out by hand: the class, then the red, the green and the blue plane."""
    return b"".join(bytes([label]) + image[..., 0].tobytes() + image[..., 1].tobytes() + image[..., 2].tobytes()
                    for image, label in zip(images, labels))


def write(root, batch=40, test=50):
    """All six files; returns the folder, and the pictures and labels of 'train' and 'test' in the files' order."""
    os.makedirs(str(root), exist_ok=True)
    made = {"train": [], "test": []}
    for split, names in cifar10.FILE_NAMES.items():
        for k, name in enumerate(names):
            made[split].append(pictures(batch if split == "train" else test, seed=(k if split == "train" else 99)))
            with open(os.path.join(str(root), name), "wb") as file:
                file.write(records(*made[split][-1]))
    return str(root), {split: tuple(np.concatenate(part) for part in zip(*parts)) for split, parts in made.items()}
