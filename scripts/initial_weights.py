"""Checkpoints that a new run may start from: written by import_weights.py, or by a run of before; read by train.py.

An imported one holds the network's variables, global_step 0, and under `imported/` the input mean and standard
deviation that its first layer was made for.
"""

import glob
import os

import numpy as np
import tensorflow.compat.v1 as tf

from scripts import checkpoints, configuration
from scripts.network import BACKBONE

IMPORTED = "imported/"


def write(path, values, config):
    """Writes a checkpoint of `values`, a dict from variable name to array: whole, or not at all."""
    values = dict(values)
    values[IMPORTED + "input_mean"] = np.float32(config.input.mean)
    values[IMPORTED + "input_std"] = np.float32(config.input.std)
    values[tf.GraphKeys.GLOBAL_STEP] = np.int64(0)
    names = sorted(values)
    partial = path + ".partial"
    try:
        with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            tensors = [tf.placeholder(values[name].dtype, values[name].shape) for name in names]
            save = tf.raw_ops.SaveV2(
                prefix=partial, tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
            session.run(save, {tensor: values[name] for tensor, name in zip(tensors, names)})
        for suffix in (".data-00000-of-00001", ".index"):  # the index last: it is what is looked for
            os.replace(partial + suffix, path + suffix)
    finally:
        for rest in glob.glob(glob.escape(partial) + ".*"):
            os.remove(rest)


def find(path):
    """The checkpoint that `path` names, a prefix or a folder; ValueError if there is none or it is damaged."""
    if os.path.isdir(path):
        found = checkpoints.find(path)[0]
        if not found:
            raise ValueError("{} holds no checkpoint: name a folder or a checkpoint that import_weights.py or train.py "
                             "wrote".format(path))
        return found
    if not os.path.exists(path + ".index"):
        raise ValueError("no checkpoint to start from at {0}: there is no {0}.index".format(path))
    checkpoints.verified_step(path)
    return path


def start_from(path, config):
    """Makes the variables of the default graph's network start with a checkpoint's values; returns a line that says so.

    The backbone has to be there whole, in the same shapes; of the rest what is there is taken, in the same shapes.

    Raises:
        ValueError: naming what does not fit.
    """
    path = find(path)
    reader = tf.train.load_checkpoint(path)
    stored, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    variables = _network_variables()
    problems, taken = [], {}
    for name, variable in sorted(variables.items()):
        shape = variable.shape.as_list()
        if name not in stored:
            if name.startswith(BACKBONE):
                problems.append("{} {} is not in it".format(name, shape))
        elif list(stored[name]) != shape:
            problems.append("{} is {} there, {} here".format(name, list(stored[name]), shape))
        elif types[name] != variable.dtype.base_dtype:
            problems.append("{} is {} there, {} here".format(name, types[name].name, variable.dtype.base_dtype.name))
        else:
            taken[name] = variable
    unused = sorted(name for name in stored if name not in variables and _of_the_network(name, stored))
    problems += ["{} is there and not here".format(name) for name in unused if name.startswith(BACKBONE)]
    if not (problems or taken):
        problems = ["none of its variables is of this network"]
    if problems:
        raise ValueError("config.init_checkpoint {} does not fit the network: {} (import_weights.py --format=towers leaves "
                         "out what --allow names)".format(path, checkpoints.listed(problems)))
    _check_input(path, stored, config)
    tf.train.init_from_checkpoint(path, taken)
    return _told(path, taken, variables, unused)


def refuse_as_run(path):
    """ValueError if a checkpoint found in a model_dir is no run's but imported weights."""
    if IMPORTED + "input_mean" in tf.train.load_checkpoint(path).get_variable_to_shape_map():
        raise ValueError("{} is of imported weights and no run: name it with --config.init_checkpoint and choose another "
                         "--model_dir".format(path))


def _network_variables():
    """Name to variable: what is trained, and what stands beside it in a layer's scope (moving averages)."""
    scopes = {os.path.dirname(v.op.name) for v in tf.trainable_variables()}
    return {v.op.name: v for v in tf.global_variables() if os.path.dirname(v.op.name) in scopes}


def _of_the_network(name, names):
    """Whether a name is a network's variable: no step counter, no note of the import, no slot of another variable."""
    return name != tf.GraphKeys.GLOBAL_STEP and not name.startswith(IMPORTED) and os.path.dirname(name) not in names


def _check_input(path, stored, config):
    """ValueError if the weights are for another input than this run's, as a note of the import or their run says."""
    folder = os.path.dirname(os.path.abspath(path))
    run = configuration.read(os.path.dirname(folder) if os.path.basename(folder) == "best" else folder)
    for setting, value in (("mean", config.input.mean), ("std", config.input.std)):
        note = IMPORTED + "input_" + setting
        if note in stored:
            made_for = tf.train.load_variable(path, note)
        else:
            made_for = value if run is None else run.input[setting]
        if not np.allclose(made_for, value, rtol=1e-5):
            made_for = "({})".format(",".join("{:g}".format(v) for v in made_for))
            raise ValueError("config.init_checkpoint {0} was made for config.input.{1}={2} and this run has {3}: import it "
                             "with this run's, or train with --config.input.{1}={2}".format(
                                 path, setting, made_for, tuple(value)))


def _told(path, taken, variables, unused):
    def count(backbone):
        return "{} of {}".format(*(sum(n.startswith(BACKBONE) == backbone for n in names) for names in (taken, variables)))

    line = "{} of {} variables from {} (backbone {}, head {})".format(
        len(taken), len(variables), path, count(True), count(False))
    return line + ("; not used: " + checkpoints.listed(unused) if unused else "")
