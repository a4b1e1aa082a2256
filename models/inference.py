"""Prediction of whole images by sliding windows, with flip and several scales, over any number of towers.

The evaluation of the recipe, for an image of size H x W and every scale s:

    1. resize so that the long side is round(s · resize · L), bilinear with half-pixel centres; L is the image's
       own long side, or one length for all images
    2. where that is smaller than the crop, pad with the mean: half before (rounded down), the rest after
    3. cut windows of the crop's size every ceil(crop · stride_rate) pixels; the last is moved inside
    4. softmax of each window, averaged with the flipped-back softmax of the flipped window
    5. add into place, divide every pixel by the number of windows over it, remove the padding
    6. resize the probabilities to H x W

and the mean over the scales. A tower runs one window at a time (two inputs with flip), and windows of
consecutive scales and images fill up the towers, so an image of a single window leaves no tower idle. What is
held at a time is one scale of one image, and a few more only where a scale has fewer windows than there are
towers: probabilities are float32, [H, W, C] at the image's and at the scale's size.
"""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

import towers


def window_plan(height, width, crop_h, crop_w, stride_rate=2 / 3):
    """Places of the windows over an image, row by row: a list of (top, left).

    Sizes are in pixels; the image counts as padded to at least the crop. Every pixel is in at least one
    window, and every window is inside.
    Raises:
      ValueError: stride_rate not in (0, 1] (a greater one would leave gaps), or a size below 1.
    """
    if not 0 < stride_rate <= 1:
        raise ValueError("stride_rate {} is not in (0, 1]: it is the step between windows as a share of the "
                         "crop".format(stride_rate))
    if min(height, width, crop_h, crop_w) < 1:
        raise ValueError("image {}x{} with crop {}x{}: sizes must be 1 or more".format(
            height, width, crop_h, crop_w))
    rows, columns = _starts(height, crop_h, stride_rate), _starts(width, crop_w, stride_rate)
    return [(top, left) for top in rows for left in columns]


def stride(crop, stride_rate):
    """Pixels from one window to the next: a share of the crop's side, rounded up."""
    return int(np.ceil(crop * stride_rate))


def scaled_size(height, width, scale, long_side=None):
    """Size (h, w) of an image at a scale: the long side is rounded first, the other keeps the aspect.

    The scale is that of the image's own long side, or of `long_side` pixels where they are given.
    """
    long_size = max(1, int(round(scale * (long_side or max(height, width)))))
    if height > width:
        return long_size, max(1, int(round(long_size / height * width)))
    return max(1, int(round(long_size / width * height))), long_size


class SlidingWindowPredictor:
    """Class probabilities of images of any size, from a network of fixed input size.

    The constructor adds to the default graph (which may be finalised after it); the other methods only run
    it. The network's variables are its own: build under `tf.variable_scope(tf.get_variable_scope(),
    reuse=True)` to use those of a training network in the same graph, or restore them from a checkpoint.

    Args:
      network_fn: function of normalised images [N, h, w, 3] float32, of the crop's size, to logits
        [N, h, w, C].
      num_classes: C.
      devices: device strings, one a tower.
      crop_size: (h, w) in pixels.
      mean, std: 3 numbers each, in units of 0..255, RGB.
      stride_rate: step between windows over the crop's size, in (0, 1].
      scales: sizes at which each image is seen; their probabilities are averaged.
      flip: also look at each window mirrored left to right.
      resize: a factor on every scale, for a network trained on images scaled by it. Results have the image's
        own size.
      long_side: pixels that scale 1 gives to the long side of every image; None for the image's own.
      aggregation_device: where images and probabilities are resized.
    """

    def __init__(self, network_fn, num_classes, devices, crop_size, mean, std, stride_rate=2 / 3,
                 scales=(1.,), flip=False, resize=1., long_side=None, aggregation_device="/cpu:0"):
        if not scales or min(scales) <= 0 or resize <= 0:
            raise ValueError("scales {} with resize {}: give at least one scale, all above 0".format(
                scales, resize))
        window_plan(1, 1, crop_size[0], crop_size[1], stride_rate)
        self._num_classes = num_classes
        self._crop = tuple(crop_size)
        self._stride_rate = stride_rate
        self._scales = [scale * resize for scale in scales]
        self._long_side = long_side
        self._mean = np.asarray(mean, np.float32)
        with tf.name_scope("sliding_window"):
            self._windows = [tf.placeholder(tf.float32, (1,) + self._crop + (3,), name="window_%d" % k)
                             for k in range(len(devices))]
            self._probabilities = towers.build(
                lambda windows: window_probabilities(network_fn, windows, mean, std, flip),
                [(windows,) for windows in self._windows], devices, aggregation_device, training=False)
            with tf.device(aggregation_device):
                self._array = tf.placeholder(tf.float32, [None, None, None], name="array")
                self._size = tf.placeholder(tf.int32, [2], name="size")
                self._resized = tf.image.resize_bilinear(
                    self._array[None], self._size, half_pixel_centers=True)[0]

    def predict(self, session, image):
        """Probabilities of one image [H, W, 3] uint8 (or float 0..255): [H, W, C] float32."""
        return next(self.predict_all(session, [image]))

    def labels(self, session, image):
        """The most probable class of each pixel: [H, W] int32."""
        return next(self.labels_all(session, [image]))

    def labels_all(self, session, images):
        """`labels` of each image of an iterable, in order, as a generator."""
        for probabilities in self.predict_all(session, images):
            yield np.argmax(probabilities, axis=-1).astype(np.int32)

    def predict_all(self, session, images):
        """`predict` of each image of an iterable, in order: a generator; their windows share the towers."""
        unfinished = collections.deque()
        batch = []
        for image in images:
            if image.ndim != 3 or image.shape[2] != 3:
                raise ValueError("an image of shape {} cannot be predicted: [H, W, 3] is wanted".format(
                    image.shape))
            height, width = image.shape[:2]
            result = _Result(np.zeros((height, width, self._num_classes), np.float32), len(self._scales))
            unfinished.append(result)
            for scale in self._scales:
                scaled = self._resize(session, image, scaled_size(height, width, scale, self._long_side))
                mosaic = _Mosaic(scaled, self._crop, self._stride_rate, self._mean, self._num_classes)
                for place in mosaic.places:
                    batch.append((result, mosaic, place))
                    if len(batch) == len(self._windows):
                        self._run(session, batch)
                        batch = []
            while unfinished and not unfinished[0].missing:
                yield unfinished.popleft().mean(len(self._scales))
        self._run(session, batch)
        while unfinished:
            yield unfinished.popleft().mean(len(self._scales))

    def _run(self, session, batch):
        if not batch:
            return
        feeds = {tensor: mosaic.window(place)[None]
                 for tensor, (_, mosaic, place) in zip(self._windows, batch)}
        # Only the towers that have a window are run: at inference none waits for another.
        windows = session.run(self._probabilities[:len(batch)], feeds)
        for (result, mosaic, place), window in zip(batch, windows):
            mosaic.add(place, window[0])
            if not mosaic.missing:
                result.add(self._resize(session, mosaic.mean(), result.total.shape[:2]))

    def _resize(self, session, array, size):
        if array.shape[:2] == tuple(size):
            return array
        return session.run(self._resized, {self._array: array, self._size: size})


def window_probabilities(network_fn, windows, mean, std, flip):
    """Softmax [N, h, w, C] of a network on windows [N, h, w, 3] in 0..255, averaged with the mirrored one."""
    images = (windows - tf.constant(mean, tf.float32)) / tf.constant(std, tf.float32)
    if not flip:
        return tf.nn.softmax(tf.cast(network_fn(images), tf.float32))
    both = tf.concat([images, tf.reverse(images, axis=[2])], axis=0)
    plain, mirrored = tf.split(tf.nn.softmax(tf.cast(network_fn(both), tf.float32)), 2, axis=0)
    return (plain + tf.reverse(mirrored, axis=[2])) / 2


class _Result:
    """One image: the sum of the probabilities of its scales, and how many scales are still to come."""

    def __init__(self, total, missing):
        self.total = total
        self.missing = missing

    def add(self, probabilities):
        self.total += probabilities
        self.missing -= 1

    def mean(self, count):
        self.total /= count
        return self.total


class _Mosaic:
    """One image at one scale: its windows, and the sum of the probabilities that came back."""

    def __init__(self, image, crop, stride_rate, mean, num_classes):
        self._size = image.shape[:2]
        self._crop = crop
        pad = [max(c - n, 0) for c, n in zip(crop, self._size)]
        self._before = [p // 2 for p in pad]
        padded = [n + p for n, p in zip(self._size, pad)]
        if any(pad):
            self._image = np.empty(padded + [3], np.float32)
            self._image[...] = mean
            self._image[self._inside()] = image
        else:
            self._image = image
        self.places = window_plan(padded[0], padded[1], crop[0], crop[1], stride_rate)
        self.missing = len(self.places)
        self._count = np.zeros(padded + [1], np.float32)
        for place in self.places:
            self._count[self._area(place)] += 1
        self._sum = np.zeros(padded + [num_classes], np.float32)

    def window(self, place):
        return self._image[self._area(place)]

    def add(self, place, probabilities):
        self._sum[self._area(place)] += probabilities
        self.missing -= 1

    def mean(self):
        self._sum /= self._count
        return self._sum[self._inside()]

    def _area(self, place):
        return tuple(slice(start, start + size) for start, size in zip(place, self._crop))

    def _inside(self):
        return tuple(slice(start, start + size) for start, size in zip(self._before, self._size))


def _starts(size, crop, stride_rate):
    size, step = max(size, crop), stride(crop, stride_rate)
    steps = int(np.ceil((size - crop) / step)) + 1
    return [min(k * step, size - crop) for k in range(steps)]
