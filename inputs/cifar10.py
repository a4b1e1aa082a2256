"""CIFAR-10 in its binary version: 60,000 pictures of 32x32 in ten classes.

    ROOT/data_batch_1.bin ... data_batch_5.bin     to train on
    ROOT/test_batch.bin                            to test on

or the same in ROOT/cifar-10-batches-bin, as the archive unpacks. A file is a row of records of 3073 bytes: the class,
0..9, then 1024 bytes of red, of green and of blue, each row by row (https://www.cs.toronto.edu/~kriz/cifar.html).

Training pictures are cropped at random from the picture padded on each side, and mirrored at random; what is drawn
depends on (seed, epoch, place in the files) alone, and the order is that of `inputs.pipeline`: a run that starts at
any step sees what an uninterrupted one would, on any number of towers.
"""

import collections
import os

import numpy as np
import tensorflow.compat.v1 as tf

from inputs import augmentation, pipeline, transforms
from inputs.examples import DataError

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIZE, CHANNELS = 32, 3
RECORD = 1 + CHANNELS * SIZE * SIZE
FILE_NAMES = {"train": tuple("data_batch_{}.bin".format(k) for k in range(1, 6)), "test": ("test_batch.bin",)}
ARCHIVE_FOLDER = "cifar-10-batches-bin"

Split = collections.namedtuple("Split", "paths number")
Split.__doc__ = """The files of a split, in order, and the number of pictures in them."""

_as_it_is = tf.autograph.experimental.do_not_convert


def open_split(root, split):
    """The checked files of 'train' or 'test': a `Split`. Reads every label (0.1 s for the 150 MB of 'train').

    Raises:
      DataError: what is wrong with which file, in one line.
    """
    if split not in FILE_NAMES:
        raise DataError("CIFAR-10 has no split %r: the splits are train and test" % (split,))
    root = os.path.expanduser(str(root))
    if not os.path.isdir(root):
        raise DataError("no CIFAR-10 in %s: it is not a folder" % root)
    if not os.path.exists(os.path.join(root, FILE_NAMES[split][0])):
        inside = os.path.join(root, ARCHIVE_FOLDER)
        root = inside if os.path.isdir(inside) else root
    paths = [os.path.join(root, name) for name in FILE_NAMES[split]]
    return Split(tuple(paths), sum(_check(path) for path in paths))


def _check(path):
    """The number of records in a file."""
    if not os.path.isfile(path):
        hint = ""
        if any(name.startswith("data_batch_1") for name in _names_beside(path) if not name.endswith(".bin")):
            hint = "; what is there is the Python version: unpack cifar-10-binary.tar.gz"
        raise DataError("CIFAR-10 lacks the file %s%s" % (path, hint))
    size = os.path.getsize(path)
    if size == 0 or size % RECORD:
        raise DataError("%s has %d bytes, which is no whole number of records of %d: it was cut short, or is no binary "
                        "CIFAR-10 batch (the original has 10000 records)" % (path, size, RECORD))
    try:
        labels = np.memmap(path, np.uint8, "r", shape=(size // RECORD, RECORD))[:, 0]
    except OSError as error:
        raise DataError("cannot read %s: %s" % (path, error.strerror)) from None
    if labels.max() >= len(CLASS_NAMES):
        record = int(np.argmax(labels >= len(CLASS_NAMES)))
        raise DataError("%s: the label of record %d is %d, but CIFAR-10 has the classes 0 to 9: damaged, or the records "
                        "are not of %d bytes" % (path, record, labels[record], RECORD))
    return size // RECORD


def _names_beside(path):
    folder = os.path.dirname(path)
    return os.listdir(folder) if os.path.isdir(folder) else []


def name(split, place):
    """Where the picture at a place of a split is: its file, and the number of its record in it."""
    for path in split.paths:
        number = os.path.getsize(path) // RECORD
        if place < number:
            return "%s, record %d" % (path, place)
        place -= number
    raise IndexError(place)


def train_dataset(split, batch_size, seed, start_step=0, *, pad=4, flip_probability=0.5, mean=(125.3, 123.0, 113.9),
                  std=(63.0, 62.1, 66.7), shuffle=True, num_parallel=2, share=None):
    """The endless training set from `start_step` on. The keywords are those of a configuration's `input`.

    Args:
      split: a `Split`; its pictures are kept in memory (uint8).
      batch_size: pictures a batch, over all towers.
      seed: integer; the order and every drawn number follow from it.
      start_step: batches to leave out at the start; costs nothing.
      share: (first, number): of each batch only so many pictures, from that place on, are made; None: all.
      pad: pixels added on each side, with the mean, before a 32x32 crop is drawn; 0 for none.

    Returns:
      a Dataset of dicts: image [B, 32, 32, 3] float32 normalised; label [B] int32; index [B] int64, the place in the
      files; epoch [B] int64.
    Raises:
      ValueError for values that cannot be meant.
    """
    for name, value, good, wanted in (
        ("batch_size", batch_size, int(batch_size) == batch_size > 0, "a positive integer"),
        ("start_step", start_step, start_step >= 0, "0 or more"),
        ("input.pad", pad, int(pad) == pad >= 0, "a whole number, 0 or more"),
        ("input.flip_probability", flip_probability, 0 <= flip_probability <= 1, "a probability, 0 to 1"),
        ("input.num_parallel", num_parallel, num_parallel > 0, "positive"),
        ("share", share, share is None or 0 <= share[0] < share[0] + share[1] <= batch_size, "within the batch"),
    ):
        if not good:
            raise ValueError("%s is %s, but must be %s" % (name, value, wanted))

    def example(position, records):
        index, epoch = position["index"], position["epoch"]
        images, labels = _decoded(records[index : index + 1], mean, std)
        image = _augmented(images[0], pipeline.augmentation_key(seed, epoch, index), pad, flip_probability)
        return {"image": image, "label": labels[0], "index": index, "epoch": epoch}

    memory = tf.data.Dataset.range(1).map(_as_it_is(lambda _: _records(split))).cache().repeat()
    order = pipeline.example_order(split.number, seed, start_step * batch_size, shuffle)
    positions = pipeline.share_of(order, batch_size, share)
    return (
        tf.data.Dataset.zip((positions, memory))
        .map(_as_it_is(example), num_parallel_calls=num_parallel)
        .batch(share[1] if share else batch_size, drop_remainder=True)
        .prefetch(2)
    )


def eval_dataset(split, batch_size, mean=(125.3, 123.0, 113.9), std=(63.0, 62.1, 66.7)):
    """One pass in the order of the files, the last batch as small as it comes: image, label as in training."""

    def batch(records):
        images, labels = _decoded(records, mean, std)
        return {"image": images, "label": labels}

    records = tf.data.Dataset.from_tensors(0).map(_as_it_is(lambda _: _records(split))).unbatch()
    return records.batch(batch_size).map(_as_it_is(batch)).prefetch(2)


def _records(split):
    """All records of a split, [n, 3073] uint8."""
    files = [tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), [-1, RECORD]) for path in split.paths]
    return tf.concat(files, axis=0)


def _decoded(records, mean, std):
    """([n, 32, 32, 3] float32 normalised, labels [n] int32) of records [n, 3073] uint8."""
    images = tf.transpose(tf.reshape(records[:, 1:], [-1, CHANNELS, SIZE, SIZE]), [0, 2, 3, 1])
    return transforms.normalise(images, mean, std), tf.cast(records[:, 0], tf.int32)


def _augmented(image, key, pad, flip_probability):
    """A random crop of the picture padded with the mean (0 after normalising), mirrored with this probability."""

    def place(number):
        return tf.random.stateless_uniform(
            [], seed=augmentation.fold(key, number), minval=0, maxval=2 * pad + 1, dtype=tf.int32)

    top, left = place(0), place(1)
    flip = tf.random.stateless_uniform([], seed=augmentation.fold(key, 2)) < flip_probability
    image = tf.pad(image, [[pad, pad], [pad, pad], [0, 0]])[top : top + SIZE, left : left + SIZE]
    image = tf.where(flip, image[:, ::-1], image)
    return tf.ensure_shape(image, [SIZE, SIZE, CHANNELS])
