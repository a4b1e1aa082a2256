"""What can be wrong with a run's folder: functions that spoil a copy of one, whose latest checkpoint is `LATEST`."""

import glob
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

LATEST = "model.ckpt-1"


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def index(content):
    return lambda run: write(os.path.join(run, LATEST + ".index"), content)


def data(content):
    return lambda run: write(os.path.join(run, LATEST + ".data-00000-of-00001"), content)


def state(content):
    return lambda run: write(os.path.join(run, "checkpoint"), content)


def settings(change):
    """config.json after `change`, a function of its dict to what is written: text, or an object for JSON."""

    def spoil(run):
        path = os.path.join(run, "config.json")
        with open(path) as file:
            changed = change(json.load(file))
        write(path, changed if isinstance(changed, bytes) else json.dumps(changed).encode())

    return spoil


def values(change):
    """The checkpoint written anew with `change(name, value)` for each value; None leaves it out."""

    def spoil(run):
        prefix = os.path.join(run, LATEST)
        reader = tf.train.load_checkpoint(prefix)
        kept = {name: change(name, reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
        kept = {name: np.asarray(value) for name, value in kept.items() if value is not None}
        for path in glob.glob(prefix + ".*"):
            os.remove(path)
        with tf.Graph().as_default(), tf.Session() as session:
            tensors = {name: tf.placeholder(value.dtype, value.shape) for name, value in kept.items()}
            names = sorted(kept)
            session.run(
                tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                                  tensors=[tensors[name] for name in names]),
                {tensors[name]: kept[name] for name in names})

    return spoil


def without(part):
    return values(lambda name, value: None if part in name else value)


def replaced(end, change):
    """Those whose name ends so are changed."""
    return values(lambda name, value: change(value) if name.endswith(end) else value)
