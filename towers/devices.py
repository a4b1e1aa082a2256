"""Towers' devices, the session configuration under which they exist, and a batch split over them."""

import numbers

import tensorflow.compat.v1 as tf
from absl import logging

from towers import versions


def tower_devices(num_towers, device_type=None):
    """Device strings, one a tower.

    Args:
      num_towers: how many towers, at least 1.
      device_type: `None` takes GPUs where any is visible, else logical CPU devices (one log line says so); `'gpu'`
        insists on GPUs; `'cpu'` forces logical CPU devices, which exist in sessions made with `session_config`.

    Returns:
      A list of `num_towers` strings such as `/gpu:0` or `/cpu:3`.

    Raises:
      ValueError: fewer GPUs are visible than towers were asked for, `num_towers` is no positive integer, or
        `device_type` is unknown.
    """
    _check_num_towers(num_towers)
    kind = device_type.lower() if isinstance(device_type, str) else device_type
    if kind not in (None, "cpu", "gpu"):
        raise ValueError("device_type is %r; wanted None, 'cpu' or 'gpu'" % (device_type,))
    num_gpus = 0 if kind == "cpu" else len(versions.visible_gpus())
    if num_gpus == 0 and kind is None:
        logging.info("No GPU is visible: %d tower(s) run on logical CPU devices.", num_towers)
        kind = "cpu"
    if kind == "cpu":
        return ["/cpu:%d" % i for i in range(num_towers)]
    if num_gpus < num_towers:
        raise ValueError(
            "%d towers were asked for, but %d GPU(s) are visible; ask for at most that many, make more visible "
            "(CUDA_VISIBLE_DEVICES), or take the device type 'cpu'" % (num_towers, num_gpus))
    return ["/gpu:%d" % i for i in range(num_towers)]


def session_config(devices, **fields):
    """A `tf.ConfigProto` under which `devices` exist.

    Logical CPU devices come from `device_count`; GPUs get memory that grows as needed; soft placement is on, so that
    ops without a GPU kernel still run, and so do the gradients of a variable that a model reads inside a loop or a cond
    (they stay with the variable, wherever the tower is). A field given by the caller wins over these.

    Args:
      devices: device strings (from `tower_devices`, or anything `tf.DeviceSpec` reads).
      **fields: fields of `tf.ConfigProto`.

    Returns:
      A `tf.ConfigProto`.
    """
    specs = [tf.DeviceSpec.from_string(device) for device in devices]
    cpus = [spec.device_index or 0 for spec in specs if (spec.device_type or "").upper() == "CPU"]
    fields.setdefault("allow_soft_placement", True)
    config = tf.ConfigProto(**fields)
    if cpus:
        config.device_count["CPU"] = max(max(cpus) + 1, config.device_count.get("CPU", 0))
    uses_gpu = any((spec.device_type or "").upper() == "GPU" for spec in specs)
    if uses_gpu and "gpu_options" not in fields:
        config.gpu_options.allow_growth = True
    return config


def split_batch(batch, num_towers):
    """Splits a batch along axis 0 into one part a tower.

    A batch of b examples gives the first `b % num_towers` towers `b // num_towers + 1` examples and the others
    `b // num_towers`; for example 5 over 3 towers is 2, 2, 1.

    Args:
      batch: a tensor `[b, ...]`, or a tuple, list or dict (nested too) of such tensors with one `b`.
      num_towers: how many parts.

    Returns:
      A list of `num_towers` structures like `batch`. Static shapes are kept; where b is unknown, only axis 0 is.

    Raises:
      ValueError: a tensor is a scalar or is sparse, the batch sizes differ, or a known batch has fewer examples than
        there are towers.
    """
    _check_num_towers(num_towers)
    leaves = [_dense(leaf) for leaf in tf.nest.flatten(batch)]
    if not leaves:
        raise ValueError("batch is %r; wanted at least one tensor to split" % (batch,))
    size = _static_batch_size(leaves)
    if size is not None and size < num_towers:
        raise ValueError(
            "a batch of %d cannot give %d towers an example each; use a larger batch or fewer towers"
            % (size, num_towers))
    sizes = _part_sizes(leaves[0], size, num_towers)
    with tf.name_scope("split_batch"):
        parts = [_split(leaf, sizes, num_towers) for leaf in leaves]
    return [tf.nest.pack_sequence_as(batch, [part[i] for part in parts]) for i in range(num_towers)]


def _check_num_towers(num_towers):
    if isinstance(num_towers, bool) or not isinstance(num_towers, numbers.Integral) or num_towers < 1:
        raise ValueError("num_towers is %r; wanted an integer of at least 1" % (num_towers,))


def _dense(leaf):
    if isinstance(leaf, (tf.SparseTensor, tf.IndexedSlices, tf.SparseTensorValue)):
        raise ValueError("%s in the batch; wanted dense tensors: split it with tf.sparse.split and pass the parts to "
                         "tower_inputs yourself" % type(leaf).__name__)
    tensor = tf.convert_to_tensor(leaf)
    if tensor.shape.ndims == 0:
        raise ValueError("tensor %s in the batch is a scalar; wanted tensors with a batch axis" % tensor.name)
    return tensor


def _static_batch_size(leaves):
    sizes = {}
    for leaf in leaves:
        size = leaf.shape.as_list()[0] if leaf.shape.ndims is not None else None
        if size is not None:
            sizes.setdefault(size, leaf.name)
    if len(sizes) > 1:
        raise ValueError("batch sizes differ: %s; wanted one batch size in all tensors"
                         % ", ".join("%s has %d" % (name, size) for size, name in sorted(sizes.items())))
    return next(iter(sizes), None)


def _part_sizes(leaf, size, num_towers):
    """Examples a tower: a list of ints where the batch size is known, else an int32 tensor `[num_towers]`."""
    if size is not None:
        return [size // num_towers + (i < size % num_towers) for i in range(num_towers)]
    dynamic = tf.shape(leaf)[0]
    return dynamic // num_towers + tf.cast(tf.range(num_towers) < dynamic % num_towers, tf.int32)


def _split(leaf, sizes, num_towers):
    parts = tf.split(leaf, sizes, axis=0, num=num_towers)
    for i, part in enumerate(parts):
        if leaf.shape.ndims is not None:
            part.set_shape([sizes[i] if isinstance(sizes, list) else None] + leaf.shape.as_list()[1:])
    return parts
