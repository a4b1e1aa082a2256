"""Training and evaluation data sets as tf.data graphs.

The training set is one endless sequence of examples, defined by (seed, number of examples) alone:

    position p = step * batch_size + j,  epoch = p // n,  place = p % n
    example = permutation(seed, epoch)[place]
    augmentation key = hash(seed, epoch, example)

so a run that starts at any step sees exactly what an uninterrupted one would, and the number of towers, of
parallel calls and of restarts changes nothing. Where n is no multiple of the batch, an epoch's last batch is
filled from the next epoch.
"""

import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

from inputs import augmentation, decoding, labels, transforms
from inputs.examples import DataError

# AutoGraph would spend seconds on reading these functions' source, and finds nothing to convert.
_as_it_is = tf.autograph.experimental.do_not_convert

# Folds of the seed that must not meet: one for the order of examples, one for what is drawn for each.
_ORDER, _AUGMENT = 1, 2


def train_dataset(
    examples,
    batch_size,
    seed,
    start_step=0,
    *,
    crop_size,
    resize=1.0,
    scale_range=(0.5, 2.0),
    rotate_degrees=10.0,
    rotate_probability=0.5,
    blur_probability=0.5,
    flip_probability=0.5,
    mean=(123.675, 116.28, 103.53),
    std=(58.395, 57.12, 57.375),
    shuffle=True,
    num_parallel=2,
    cache=False,
    ignore_label=labels.IGNORE,
    replace_unreadable=False,
    share=None,
):
    """The endless training set from `start_step` on. The keywords are those of a configuration's `input`.

    Args:
      examples: list of `Example`, all with labels.
      batch_size: examples a batch, over all towers.
      seed: integer; the order and every drawn number follow from it.
      start_step: batches to leave out at the start; costs nothing.
      resize: image and label are scaled by this on reading, before augmentation.
      cache: keep all decoded images in memory (uint8, three bytes a pixel, and one for the label): for small
      data sets.
      replace_unreadable: where an example cannot be read the next in `examples` that can takes its place, and a line
      on standard error says so. All else is as without; what is drawn for the place stays.
      share: (first, number): of each batch only so many examples, from that place on, are read and returned, as one of
      several workers wants them. None: all.

    Returns:
      a Dataset of dicts: image [B, h, w, 3] float32 normalised; label [B, h, w] int32, classes or 255; index
      [B] int64, the place in `examples`; epoch [B] int64.

    Raises:
      ValueError for values that cannot be meant. Faults in files stop the iterator: see
      `inputs.decoding.data_error`.
    """
    params = augmentation.Params(
        tuple(int(v) for v in crop_size),
        scale_range,
        rotate_degrees,
        rotate_probability,
        blur_probability,
        flip_probability,
        mean,
        std,
    )
    augmentation.check_params(params)
    _require(len(examples) > 0, "examples", "empty", "a list of at least one")
    _require(int(batch_size) == batch_size > 0, "batch_size", batch_size, "a positive integer")
    _require(start_step >= 0, "start_step", start_step, "0 or more")
    _require(resize > 0, "input.resize", resize, "positive")
    _require(num_parallel > 0, "input.num_parallel", num_parallel, "positive")
    _require(share is None or 0 <= share[0] < share[0] + share[1] <= batch_size, "share", share, "within the batch")
    files = _Files(examples)
    read_one = _read_or_next if replace_unreadable else _read

    def example(position, image, label, classes=None):
        index, epoch = position["index"], position["epoch"]
        key = augmentation_key(seed, epoch, index)
        image, label = augmentation.augment(image, label, key, params, ignore_label, classes)
        return {"image": image, "label": label, "index": index, "epoch": epoch}

    positions = share_of(example_order(len(examples), seed, start_step * batch_size, shuffle), batch_size, share)
    if cache:
        memory = (
            tf.data.Dataset.range(1)
            .map(_as_it_is(lambda _: _read_all(files, resize, num_parallel, read_one)))
            .cache()
            .repeat()
        )
        read = tf.data.Dataset.zip((positions, memory)).map(
            _as_it_is(lambda position, store: example(position, *_from_memory(store, position["index"]))),
            num_parallel_calls=num_parallel,
        )
    elif replace_unreadable:
        read = positions.map(
            _as_it_is(lambda position: example(position, *read_one(files, position["index"], resize))),
            num_parallel_calls=num_parallel,
        )
    else:

        def one(position):
            encoding = files.encoding_of(position["index"])
            parts = _read_values(files, position["index"], resize)
            return example(position, *parts, classes=lambda values: decoding.classes(values, encoding))

        read = positions.map(_as_it_is(one), num_parallel_calls=num_parallel)
    return read.batch(share[1] if share else batch_size, drop_remainder=True).prefetch(2)


def eval_dataset(examples, num_parallel=2):
    """One pass over `examples` in order, one whole image at a time, as in the files.

    Returns:
      a Dataset of dicts: image [H, W, 3] uint8; label [H, W] int32, classes or 255; index, a scalar int64.
    """
    _require(len(examples) > 0, "examples", "empty", "a list of at least one")
    files = _Files(examples)

    def example(index):
        image, label = _read(files, index, 1.0)
        return {"image": image, "label": label, "index": index}

    return (
        tf.data.Dataset.range(len(examples))
        .map(_as_it_is(example), num_parallel_calls=num_parallel)
        .prefetch(2)
    )


def example_order(num_examples, seed, start=0, shuffle=True):
    """The endless order of examples from position `start` on: a Dataset of dicts of scalars int64, index
    and epoch.
    """

    def one_epoch(epoch):
        order = tf.range(num_examples, dtype=tf.int64)
        if shuffle:
            order = tf.gather(order, permutation(num_examples, seed, epoch))
        return tf.data.Dataset.from_tensor_slices({"index": order, "epoch": tf.fill([num_examples], epoch)})

    first = start // num_examples
    return (
        tf.data.Dataset.range(first, np.iinfo(np.int64).max)
        .flat_map(_as_it_is(one_epoch))
        .skip(start % num_examples)
    )


def share_of(positions, batch_size, share):
    """Of every `batch_size` of `positions` (from `example_order`) only a share, (first, number); all where it is None."""
    if share is None:
        return positions
    own = slice(share[0], share[0] + share[1])
    return positions.batch(batch_size).flat_map(
        _as_it_is(lambda batch: tf.data.Dataset.from_tensor_slices({name: value[own] for name, value in batch.items()})))


def permutation(num_examples, seed, epoch):
    """[num_examples] int32: the order of examples in an epoch (scalar int64), which depends on nothing but
    the arguments.
    """
    keys = tf.random.stateless_uniform(
        [num_examples], seed=_key(seed, _ORDER, epoch), minval=None, maxval=None, dtype=tf.int64
    )
    return tf.argsort(keys, stable=True)


def augmentation_key(seed, epoch, index):
    """The key [2] int64 from which an example's augmentation is drawn in an epoch (scalars int64)."""
    return _key(seed, _AUGMENT, epoch, index)


def _key(seed, *numbers):
    """A stateless key [2] int64 from the seed and more numbers, hashed one after the other."""
    key = tf.constant([seed, 0], tf.int64)
    for number in numbers:
        key = augmentation.fold(key, number)
    return key


class _Files(object):
    """The paths of examples as constants to gather from: a few hundred kilobytes for all of Cityscapes."""

    def __init__(self, examples):
        without = [e.image_path for e in examples if not e.label_path]
        if without:
            raise DataError(
                "image without its label: %s; training and scoring need one" % without[0]
            )
        self.number = len(examples)
        # As the file system has them: a name need not be text.
        self.images = tf.constant([os.fsencode(e.image_path) for e in examples])
        self.labels = tf.constant([os.fsencode(e.label_path) for e in examples])
        encodings = list({e.encoding.name: e.encoding for e in examples}.values())
        numbers = {encoding.name: k for k, encoding in enumerate(encodings)}
        self.encoding = tf.constant([numbers[e.encoding.name] for e in examples])
        self.encodings = labels.Encoding(
            tf.constant([e.name for e in encodings]), tf.constant(np.stack([e.table for e in encodings]))
        )

    def encoding_of(self, index):
        """The `labels.Encoding`, of tensors, of an example's label file."""
        return labels.Encoding(*(tf.gather(v, tf.gather(self.encoding, index)) for v in self.encodings))

    def name(self, index):
        """The files of an example, in words: a string tensor."""
        return tf.strings.join([tf.gather(self.images, index), tf.gather(self.labels, index)], separator=" and ")


def _read(files, index, resize):
    """Example `index` as ([H, W, 3] uint8, [H, W] int32), scaled by `resize`."""
    image, values = _read_values(files, index, resize)
    return image, decoding.classes(values, files.encoding_of(index))


def _read_values(files, index, resize):
    """As `_read`, with the label's values as they are in its file, uint8."""
    image, label = decoding.read_example_values(
        tf.gather(files.images, index), tf.gather(files.labels, index), files.encoding_of(index)
    )
    if resize != 1:
        image, label = transforms.scale(image, label, transforms.scaled_size(tf.shape(label), resize))
        image = tf.cast(tf.round(image), tf.uint8)
    return image, label


def _read_or_next(files, index, resize):
    """As `_read`, of the first example from `index` on that can be read, the first following the last."""
    index = tf.cast(index, tf.int64)
    tried = tf.data.Dataset.range(files.number).map(lambda k: (index + k) % files.number)
    none = tf.data.Dataset.from_tensors((tf.zeros([0, 0, 3], tf.uint8), tf.zeros([0, 0], tf.int32), np.int64(-1)))
    found = tried.map(_as_it_is(lambda i: _read(files, i, resize) + (i,))).ignore_errors().concatenate(none).take(1)
    image, label, read = found.get_single_element()
    with tf.control_dependencies([decoding.require(read >= 0, "not one of the examples can be read any more")]):
        told = tf.cond(
            tf.equal(read, index), tf.no_op,
            lambda: tf.print("cannot be read:", files.name(index), "- in its place:", files.name(read),
                             output_stream=sys.stderr))
    with tf.control_dependencies([told]):
        return tf.identity(image), tf.identity(label)


def _read_all(files, resize, num_parallel, read_one):
    """All examples, whatever their sizes, as flat tensors: (pixels [total, 4] uint8 of RGB and label, sizes
    [n, 2], starts [n]).
    """

    def read(i, sizes, pixels):
        image, label = read_one(files, i, resize)
        both = tf.concat([image, tf.cast(label, tf.uint8)[:, :, tf.newaxis]], axis=2)
        return (
            i + 1,
            sizes.write(i, tf.cast(tf.shape(label), tf.int64)),
            pixels.write(i, tf.reshape(both, [-1, 4])),
        )

    arrays = [
        tf.TensorArray(tf.int64, files.number, element_shape=[2]),
        tf.TensorArray(tf.uint8, files.number, element_shape=[None, 4], infer_shape=False),
    ]
    _, sizes, pixels = tf.while_loop(
        lambda i, *_: i < files.number, read, [0] + arrays, parallel_iterations=num_parallel
    )
    sizes = sizes.stack()
    starts = tf.cumsum(tf.reduce_prod(sizes, axis=1), exclusive=True)
    return pixels.concat(), sizes, starts


def _from_memory(store, index):
    pixels, sizes, starts = store
    size = sizes[index]
    count = size[0] * size[1]
    both = tf.slice(pixels, tf.stack([starts[index], 0]), tf.stack([count, 4]))
    both = tf.reshape(both, tf.stack([size[0], size[1], 4]))
    return both[:, :, :3], tf.cast(both[:, :, 3], tf.int32)


def _require(good, name, value, wanted):
    if not good:
        raise ValueError("%s is %s, but must be %s" % (name, value, wanted))
