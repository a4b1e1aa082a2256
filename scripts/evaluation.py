"""Scores of a network on a split, and what is written of them: metrics.json, pictures and the curve."""

import collections
import json
import math
import os

import numpy as np
import tensorflow.compat.v1 as tf

from inputs import pipeline
from models import metrics
from scripts import datasets, pictures
from scripts.network import TrainedNetwork

Result = collections.namedtuple("Result", "scores num_images samples confusion data_set")
Sample = collections.namedtuple("Sample", "name image truth prediction")
# One image: its `Example`, [H, W, 3] uint8, two [H, W] of train ids, and its own confusion matrix [C, C].
Scored = collections.namedtuple("Scored", "example image truth prediction confusion")


class Evaluator:
    """A network and the images to score it on; built once, run as often as there are new weights.

    Args:
        config: the configuration; its `eval` part says how images are cut and scored.
        devices: device strings, one a tower.
        examples: a list of `inputs.cityscapes.Example`.
    """

    def __init__(self, config, devices, examples):
        self._config, self._examples = config, examples
        self.before_each = lambda: None  # called before each image; what it raises ends the evaluation
        self.network = TrainedNetwork(config, devices)
        with self.network.graph.as_default(), tf.device("/cpu:0"):
            self._iterator = tf.data.make_initializable_iterator(pipeline.eval_dataset(examples))
            self._next = self._iterator.get_next()

    def each(self):
        """Predicts every image with the weights that `network` holds: a generator of `Scored`, in order.

        What is held at a time does not grow with the number of images.
        """
        session, waiting = self.network.session, collections.deque()
        session.run(self._iterator.initializer)

        def images():
            for _ in self._examples:
                self.before_each()
                waiting.append(session.run(self._next))
                yield waiting[-1]["image"]

        classes, ignored = self._config.num_classes, self._config.ignore_label
        for prediction in self.network.predictor.labels_all(session, images()):
            element = waiting.popleft()
            confusion = metrics.confusion(element["label"], prediction, classes, ignored)
            example = self._examples[int(element["index"])]
            yield Scored(example, element["image"], element["label"], prediction, confusion)

    def run(self, num_samples=0, progress=lambda done, of: None, on_image=lambda scored: None):
        """Scores every image with the weights that `network` holds: a `Result`.

        Its `samples` are the first images, with truth and prediction; `on_image` takes each image's `Scored`, and
        `progress` is called after it.
        """
        classes, samples = self._config.num_classes, []
        confusion = np.zeros([classes, classes], np.int64)
        for done, scored in enumerate(self.each(), start=1):
            confusion += scored.confusion
            if len(samples) < num_samples:
                samples.append(Sample(scored.example.name, scored.image, scored.truth, scored.prediction))
            on_image(scored)
            progress(done, len(self._examples))
        return Result(metrics.scores(confusion), len(self._examples), samples, confusion, datasets.of(self._config))


def no_truth(examples, split, data_dir):
    """The ValueError where no pixel of a split counts."""
    return ValueError(
        "no pixel of the {} image(s) of {!r} in {} has a true class that is scored, so there is no score (the labels of a "
        "test split are not given out; predict.py --submission makes what its server takes): name another --split"
        .format(len(examples), split, data_dir or "the data set"))


def summary_line(result):
    """The scores in one line."""
    return (
        "mIoU {miou:.4f} over {num_classes_present} classes, mean accuracy {mean_accuracy:.4f}, "
        "pixel accuracy {pixel_accuracy:.4f}, {num_images} images"
    ).format(num_images=result.num_images, **result.scores)


def write_metrics(result, step, path, **more):
    """Writes one JSON object: the step, the scores (null where there is none), the number of images.

    Its `confusion` has a row a true class and a column a predicted one, in the order of `per_class_iou`, in pixels.
    """
    scores = result.scores
    content = {
        "step": step,
        "miou": _finite(scores["miou"]),
        "mean_accuracy": _finite(scores["mean_accuracy"]),
        "pixel_accuracy": _finite(scores["pixel_accuracy"]),
        "per_class_iou": dict(zip(result.data_set.class_names, scores["per_class_iou"])),
        "num_classes_present": scores["num_classes_present"],
        "num_images": result.num_images,
    }
    content.update(more)
    write_json(content, result.confusion, path)


def write_json(content, confusion, path):
    """Writes a dict and, as its `confusion`, a matrix with a line a row; whole or not at all."""
    rows = ",\n    ".join(json.dumps(row) for row in confusion.tolist())
    with open(path + ".partial", "w") as file:
        file.write(json.dumps(content, indent=2)[:-2] + ',\n  "confusion": [\n    ' + rows + "\n  ]\n}\n")
    os.replace(path + ".partial", path)


def write_pictures(result, folder):
    """Writes a picture of image, truth and prediction for every sample."""
    os.makedirs(folder, exist_ok=True)
    for sample in result.samples:
        picture = pictures.triple(
            sample.image,
            sample.truth,
            sample.prediction,
            result.data_set.colors,
            result.data_set.class_names,
            title=sample.name,
        )
        pictures.save(picture, os.path.join(folder, sample.name + ".png"))


def _finite(value):
    return value if math.isfinite(value) else None
