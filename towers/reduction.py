"""How the gradients of towers are summed: by copies to the aggregation device, or by NCCL among GPUs.

    'copy'   every tower's gradient is copied to the aggregation device (a CPU or a GPU) and added there, in tower order
    'nccl'   `NcclReduce` adds them on the way to the first tower's GPU; only the sum goes to the aggregation device

Both add the same numbers; NCCL in an order of its own. What is not dense, or cannot be split by tower, is always copied.
Small gradients are packed into one vector a tower beforehand.
"""

import tensorflow.compat.v1 as tf

from towers import summation, versions

KINDS = ("copy", "nccl")


def of(kind, devices):
    """The function from a list of tensors, one a tower, to their sum.

    Args:
      kind: one of `KINDS`.
      devices: one device string a tower.

    Raises:
      ValueError: an unknown kind, or 'nccl' where the towers are not two or more, each on a GPU of its own.
    """
    if kind not in KINDS:
        raise ValueError("reduction is %r; wanted one of %s" % (kind, ", ".join(map(repr, KINDS))))
    if kind == "copy":
        return summation.in_order
    specs = [tf.DeviceSpec.from_string(device) for device in devices]
    gpus = set((spec.device_index or 0) for spec in specs if (spec.device_type or "").upper() == "GPU")
    if len(devices) < 2 or len(gpus) < len(devices):
        raise ValueError("reduction is 'nccl' and the towers are on %s; wanted two or more, each on a GPU of its own: "
                         "take 'copy'" % ", ".join(devices))
    return lambda tensors: _nccl_sum(tensors, devices)


def _nccl_sum(tensors, devices):
    parts = []
    for tensor, device in zip(tensors, devices):
        with tf.device(device):
            parts.append(tf.identity(tensor))
    with tf.device(devices[0]):
        return versions.nccl_sum(parts)
