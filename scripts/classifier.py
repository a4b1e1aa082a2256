"""The configured classifier: its model function, its schedule, and its scores on a split.

    lr(i) = learning_rate · factor ^ (number of boundaries <= i),  i the steps taken before this one
"""

import collections
import math
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

import towers
from inputs import cifar10
from models import cifar_resnet, metrics, pspnet
from scripts import evaluation, history, network, progress

METRICS, CURVE = "metrics.json", "curve.png"
Result = collections.namedtuple("Result", "accuracy per_class_accuracy confusion num_images")


def logits(images, config):
    """Logits [n, classes] of normalised images [n, 32, 32, 3]."""
    norm = pspnet.normalisation(config.model)
    return cifar_resnet.cifar_resnet(images, config.model.units, norm, config.num_classes, config.model.width)


def training_model(config):
    """A model function of `image` [n, 32, 32, 3] and `label` [n] for `towers.build_train_step`.

    Its loss is the mean of the cross-entropies of the whole batch, however it splits.
    """

    def model_fn(image, label):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits(image, config))
        return {"loss": towers.weighted_mean(losses, tf.ones_like(losses))}

    return model_fn


def learning_rate(config):
    """The rate of the next step, a scalar tensor on the CPU."""
    optimizer = config.optimizer
    with tf.device("/cpu:0"):
        step = tf.train.get_or_create_global_step()
        dropped = tf.reduce_sum(tf.cast(step >= tf.constant(optimizer.boundaries, tf.int64, [len(optimizer.boundaries)]),
                                        tf.float32))
        return optimizer.learning_rate * optimizer.factor ** dropped


def gradient_transform(config):
    """Adds the weight decay λ·w; with decay_on='kernels' not to biases, gammas and betas."""
    optimizer = config.optimizer

    def transform(grads_and_vars):
        return [
            (gradient + optimizer.weight_decay * variable, variable)
            if optimizer.decay_on == "all" or variable.op.name.endswith("/kernel")
            else (gradient, variable)
            for gradient, variable in grads_and_vars
        ]

    return transform


class Evaluator:
    """The network for inference, on one device, and a split to score it on; run as often as there are new weights.

    Args:
        config: the configuration.
        device: a device string.
        split: a `inputs.cifar10.Split`.
    """

    def __init__(self, config, device, split):
        self._classes, self._number = config.num_classes, split.number
        self.before_each = lambda: None  # called before each batch; what it raises ends the evaluation
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(0)
            with tf.device("/cpu:0"):
                dataset = cifar10.eval_dataset(split, config.eval.batch_size, config.input.mean, config.input.std)
                self._iterator = tf.data.make_initializable_iterator(dataset)
                batch = self._iterator.get_next()
            result, = towers.build(lambda image: logits(image, config), [batch["image"]], [device], training=False)
            self._fetches = batch["label"], tf.argmax(result, axis=-1, output_type=tf.int32)
            self.network = network.WeightsInSession(graph, tf.global_variables(), [device])

    def run(self):
        """Classifies every picture with the weights that it holds: a `Result`."""
        self.network.session.run(self._iterator.initializer)
        confusion = np.zeros([self._classes, self._classes], np.int64)
        while confusion.sum() < self._number:
            self.before_each()
            confusion += metrics.confusion(*self.network.session.run(self._fetches), self._classes, ignore_label=-1)
        scores = metrics.scores(confusion)
        return Result(scores["pixel_accuracy"], scores["per_class_accuracy"], confusion, self._number)


def evaluate_and_write(evaluator, step, entries, model_dir, config, say):
    """Scores the weights that the evaluator holds; writes metrics.json and the curve; returns the accuracy."""
    began = time.time()
    result = evaluator.run()
    say("step {}: accuracy {:.4f} on {} pictures, in {}".format(
        step, result.accuracy, result.num_images, progress.duration(time.time() - began)))
    entries.add(step=step, accuracy=result.accuracy if math.isfinite(result.accuracy) else None)
    content = {
        "step": step,
        "accuracy": result.accuracy,
        "per_class_accuracy": dict(zip(cifar10.CLASS_NAMES, result.per_class_accuracy)),
        "num_images": result.num_images,
        "split": config.eval_split,
    }
    evaluation.write_json(content, result.confusion, os.path.join(model_dir, METRICS))
    history.draw_curve(entries.entries, os.path.join(model_dir, CURVE), os.path.basename(model_dir))
    return result.accuracy
