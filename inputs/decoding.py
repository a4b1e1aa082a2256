"""Reads an image and its label, in the graph and without Python callbacks; see `photographs` for one in Python.

A file that cannot be used stops the graph with a TensorFlow error whose text has one line `input error: ...`
naming the file; `data_error` turns it into the `DataError` that a user should see. TensorFlow's own decoders
do not say which file they stumbled over, hence `_decode_or_nothing`: it costs 0.5 ms an image.
"""

import errno
import os
import re

import tensorflow.compat.v1 as tf

from inputs import labels
from inputs.examples import DataError
from inputs.photographs import IMAGE_EXTENSIONS, list_images, load_image  # noqa: F401  (reading, as well)

_MARK = "input error: "
_GREY, _BITS = 0, 8
# What the system says of a file that cannot be read, as TensorFlow passes it on.
_UNREADABLE = [os.strerror(number) for number in (
    errno.ENOENT, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EIO,
    errno.ESTALE)]


def read_image(path):
    """Decodes a PNG, JPEG or BMP of any kind (16-bit, grey, palette, alpha) to [H, W, 3] uint8 RGB.

    Args:
      path: scalar string tensor.

    Raises (when run): InvalidArgumentError with an `input error:` line if the file is broken; NotFoundError
    if it is not there.
    """
    image = _decode_or_nothing(
        tf.io.read_file(path),
        tf.uint8,
        3,
        lambda contents: tf.io.decode_image(contents, channels=3, expand_animations=False),
    )
    with tf.control_dependencies(
        [require(tf.size(image) > 0, "cannot decode ", path, ": broken or truncated image")]
    ):
        image = tf.identity(image)
    image.set_shape([None, None, 3])
    return image


def read_label(path, encoding=labels.LABEL_ID_FILES):
    """Decodes a label PNG and maps its values to classes: [H, W] int32, 0..C-1 or 255.

    Args:
      path: scalar string tensor.
      encoding: a `labels.Encoding`, what the file's values mean; of arrays or of tensors.

    Raises (when run): InvalidArgumentError with an `input error:` line if the file is broken, is not an 8-bit
    single-channel PNG or holds a value that the encoding does not know.
    """
    return classes(read_label_values(path, encoding), encoding)


def classes(values, encoding=labels.LABEL_ID_FILES):
    """The classes, int32, of a label file's values, which are known (see `read_label_values`)."""
    return tf.gather(encoding.table, tf.cast(values, tf.int32))


def read_label_values(path, encoding=labels.LABEL_ID_FILES):
    """`read_label` without the mapping: [H, W] uint8, each a value that the encoding knows."""
    contents = tf.io.read_file(path)
    raw = _decode_or_nothing(contents, tf.uint8, 1, lambda c: tf.io.decode_png(c, channels=1))
    # The decoder would scale 1-, 2- and 4-bit values, cut 16-bit ones and turn colours to grey: ask the
    # header what it was.
    kind = tf.io.decode_raw(tf.strings.substr(tf.strings.join([contents, "\0" * 26]), 24, 2), tf.uint8)
    with tf.control_dependencies(
        [require(tf.size(raw) > 0, "cannot decode ", path, ": broken or truncated PNG")]
    ):
        kind = tf.identity(kind)
    with tf.control_dependencies(
        [
            require(
                tf.reduce_all(tf.equal(kind, [_BITS, _GREY])),
                path,
                " is no label: wanted an 8-bit single-channel grey PNG, found ",
                tf.as_string(kind[0]),
                " bits and PNG colour type ",
                tf.as_string(kind[1]),
            )
        ]
    ):
        values = raw[:, :, 0]
    lowest = _lowest_class(values, encoding)
    with tf.control_dependencies(
        [
            require(
                lowest >= 0,
                path,
                " holds the value ",
                tf.as_string(-1 - lowest),
                ", which is no ",
                encoding.name,
            )
        ]
    ):
        return tf.identity(values)


def _lowest_class(values, encoding):
    """The lowest of `classes` where it is negative, and 0 where it is not.

    To map a megapixel takes 6 ms. Most tables know one run of values, counted on from 255 (which comes before 0, as bytes
    add), and whether all are in it takes a tenth of that.
    """
    known = tf.cast(tf.roll(encoding.table, 1, 0) >= 0, tf.int32)
    first = tf.argmax(known, output_type=tf.int32)
    last = tf.reduce_sum(tf.math.cumprod(tf.where(tf.range(256) < first, tf.ones_like(known), known))) - 1
    places = values + tf.constant(1, tf.uint8)
    lowest, highest = (tf.cast(reduce(places), tf.int32) for reduce in (tf.reduce_min, tf.reduce_max))
    return tf.cond(
        tf.logical_and(lowest >= first, highest <= last),
        lambda: tf.zeros([], tf.int32),
        lambda: tf.minimum(tf.reduce_min(classes(values, encoding)), 0),
    )


def read_example(image_path, label_path, encoding=labels.LABEL_ID_FILES):
    """`read_image` and `read_label`, and that both have one size: ([H, W, 3] uint8, [H, W] int32)."""
    image, values = read_example_values(image_path, label_path, encoding)
    return image, classes(values, encoding)


def read_example_values(image_path, label_path, encoding=labels.LABEL_ID_FILES):
    """`read_example` with the label's values in the file, for `classes`: ([H, W, 3] uint8, [H, W] uint8)."""
    image, label = read_image(image_path), read_label_values(label_path, encoding)
    image_size, label_size = tf.shape(image)[:2], tf.shape(label)
    with tf.control_dependencies(
        [
            require(
                tf.reduce_all(tf.equal(image_size, label_size)),
                "image and label differ in size: ",
                image_path,
                " is ",
                _by(image_size),
                ", ",
                label_path,
                " is ",
                _by(label_size),
                " (width x height)",
            )
        ]
    ):
        return tf.identity(image), tf.identity(label)


def data_error(error):
    """The `DataError` inside a TensorFlow error that the graph's reading raised; None where it is of
    another kind.
    """
    text = str(error)
    found = re.search(re.escape(_MARK) + r"([^\n]*?)\]?\s*(\n|$)", text)
    if found:
        return DataError(found.group(1))
    unread = re.search(r"(?:^|\}\} |[A-Z_]+: )([^\n]*?); (%s)" % "|".join(_UNREADABLE), text, re.MULTILINE)
    if not unread:
        return None
    path, reason = unread.groups()
    return DataError("no such file: %s" % path if reason == _UNREADABLE[0] else "cannot read %s: %s" % (path, reason))


def _decode_or_nothing(contents, dtype, channels, decode):
    """`decode(contents)`, or a tensor without pixels if that fails.

    A data set of one element may drop the element that fails; so an error becomes a value that the caller can
    report.
    """
    nothing = tf.data.Dataset.from_tensors(tf.zeros([0, 0, channels], dtype))

    def shaped(value):
        image = decode(value)
        image.set_shape([None, None, channels])
        return image

    one = (
        tf.data.Dataset.from_tensors(contents)
        .map(tf.autograph.experimental.do_not_convert(shaped))
        .ignore_errors()
    )
    return one.concatenate(nothing).take(1).get_single_element()


def require(condition, *message):
    """An op that stops the graph with an `input error:` line, of strings and string tensors, unless `condition` holds."""
    return tf.debugging.Assert(condition, [tf.strings.join((_MARK,) + message)])


def _by(size):
    return tf.strings.join([tf.as_string(size[1]), tf.as_string(size[0])], "x")
