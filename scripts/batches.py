"""The batches of a run, in the graph and once more after it: what a step saw can be read again.

A run of the train step takes one batch. Batches are numbered over the whole run, whatever it was stopped and resumed:
number = step · accumulate_steps + (those that a float16 step skipped).
"""

import tensorflow.compat.v1 as tf

_FED = ("image", "label")


class Batches(object):
    """The batches from a number on.

    Args:
        dataset_from: a function of a number: the dataset of batches from that one on, dicts with `image`, `label` and
            `index`, the examples' places.
        first: the number to begin with.
        name_of: a function of a place: the name of its example.

    Attributes:
        tensors: `image` and `label` of the next batch.
    """

    def __init__(self, dataset_from, first, name_of):
        self._dataset_from, self._first, self._name_of = dataset_from, first, name_of
        with tf.device("/cpu:0"):
            batch = tf.data.make_one_shot_iterator(dataset_from(first)).get_next()
        self.tensors = {name: batch[name] for name in _FED}

    def again(self, run):
        """For `towers.session.run_training`: what feeds the batch of a run, counted from `first`, and its examples' names."""
        with tf.Graph().as_default(), tf.device("/cpu:0"):
            tf.set_random_seed(0)  # never drawn from; deterministic ops want one
            batch = tf.data.make_one_shot_iterator(self._dataset_from(self._first + run)).get_next()
            with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
                values = session.run(batch)
        return {self.tensors[name]: values[name] for name in _FED}, [self._name_of(int(place)) for place in values["index"]]
