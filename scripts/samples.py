"""What a training run sees, sample by sample, and what was drawn for each."""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

from inputs import augmentation, pipeline
from scripts import pictures

GAP = 4  # pixels between image and label
Sample = collections.namedtuple("Sample", "index epoch image label drawn")


def seen_from(config, examples, start_step, number):
    """Yields what the run trains on from a step on: `number` of `Sample`.

    Its image is [h, w, 3] uint8, its label [h, w] train ids, `drawn` what `augmentation.draw_parameters` gave.
    """
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        dataset = pipeline.train_dataset(
            examples, 1, config.seed, start_step * config.batch_size, ignore_label=config.ignore_label,
            **config.input.to_dict())
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
        index, epoch = batch["index"][0], batch["epoch"][0]
        params = augmentation.Params(*[config.input[name] for name in augmentation.Params._fields])
        drawn = augmentation.draw_parameters(pipeline.augmentation_key(config.seed, epoch, index), params)
        image = batch["image"][0] * tf.constant(config.input.std) + tf.constant(config.input.mean)
        image = tf.cast(tf.round(tf.clip_by_value(image, 0, 255)), tf.uint8)
        fetches = Sample(index, epoch, image, batch["label"][0], drawn)
        with tf.Session() as session:
            for _ in range(number):
                yield session.run(fetches)


def describe(drawn):
    """What was drawn, in words: 'scale 0.83, rotated +3.2°, blurred, mirrored, crop at y 0.31 x 0.74'."""
    words = ["scale {:.2f}".format(drawn["scale"])]
    words += ["rotated {:+.1f}°".format(drawn["degrees"])] if drawn["rotate"] else []
    words += [word for name, word in (("blur", "blurred"), ("flip", "mirrored")) if drawn[name]]
    return ", ".join(words + ["crop at y {:.2f} x {:.2f}".format(drawn["crop_y"], drawn["crop_x"])])


def panel(sample, colors):
    """The image, and beside it the label's colours over the image."""
    gap = np.full([sample.image.shape[0], GAP, 3], 255, np.uint8)
    return np.concatenate([sample.image, gap, pictures.overlay(sample.image, sample.label, colors)], axis=1)
