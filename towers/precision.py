"""Half-precision towers over float32 variables.

Inputs of a tower are cast to the half type; a variable asked for in that type (`tf.get_variable(..., dtype=x.dtype)`, as
all layers do) is a float32 variable, cast where the tower reads it. So weights, slots, gradients, statistics of batch
normalisation and the loss are float32; activations and products are half. This is the scheme of Micikevicius et al.,
"Mixed Precision Training" (2018).

float16 has 5 bits of exponent: small gradients vanish. So the loss is multiplied by a scale before it is differentiated
and gradients are divided by it afterwards. The scale is dynamic: a step whose gradients are not all finite halves it and
is skipped (weights, slots, the global step and our moving statistics stay); 2,000 good steps in a row double it. A skipped
step has used up a batch: `skipped_runs` counts them, so that a resumed run reads on at the right one.
bfloat16 has float32's exponent and needs none of this.
"""

import tensorflow.compat.v1 as tf
from absl import logging

from towers import update_ops, versions

_DTYPES = {None: None, "float32": None, "bfloat16": tf.bfloat16, "float16": tf.float16}
_INITIAL_SCALE = 2. ** 15
_LARGEST_SCALE = 2. ** 24
_GROWTH_STEPS = 2000


def compute_dtype(precision):
    """The half type of towers' activations that `precision` names, or None for the types as they are."""
    if precision not in _DTYPES:
        raise ValueError("precision is %r; wanted 'float32' (or None), 'bfloat16' or 'float16'" % (precision,))
    return _DTYPES[precision]


def cast_inputs(tower_inputs, dtype):
    """Towers' inputs with float32 tensors cast to `dtype`."""
    def cast(leaf):
        tensor = tf.convert_to_tensor(leaf)
        return tf.cast(tensor, dtype) if tensor.dtype == tf.float32 else leaf

    with tf.name_scope("cast_inputs"):
        return [tf.nest.map_structure(cast, inputs) for inputs in tower_inputs]


def stored_in_float32(getter, dtype):
    """A custom getter around `getter`: a variable asked for in `dtype` is a float32 one, and a cast of it is returned."""

    def variable_getter(name, *args, **kwargs):
        if kwargs.get("dtype") is None or tf.as_dtype(kwargs["dtype"]) != dtype:
            return getter(name, *args, **kwargs)
        kwargs["dtype"] = tf.float32
        return tf.cast(getter(name, *args, **kwargs), dtype)

    return variable_getter


class LossScale(object):
    """The dynamic loss scale: three variables, in the checkpoint with the weights.

    Attributes:
      value: the scale, a scalar float32 tensor.
      valid: a scalar bool tensor that state written in the step waits for: whether the step is not skipped.
    """

    def __init__(self):
        with tf.variable_scope("loss_scale", reuse=tf.AUTO_REUSE, use_resource=True):
            self._scale = tf.get_variable("scale", [], tf.float32, tf.constant_initializer(_INITIAL_SCALE), trainable=False)
            self._good_steps = tf.get_variable("good_steps", [], tf.int64, tf.zeros_initializer(), trainable=False)
            self._skipped = tf.get_variable("skipped_runs", [], tf.int64, tf.zeros_initializer(), trainable=False)
        self.value = tf.identity(self._scale)
        self.valid = tf.placeholder_with_default(True, [], name="step_is_valid")

    def decide(self, gradients, build):
        """Makes `valid` say whether all `gradients` of all towers (and workers) are finite."""
        with tf.name_scope("finite"):
            parts = [part.values if isinstance(part, tf.IndexedSlices) else part for part in gradients]
            finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.is_finite(part)) for part in parts]))
            if build.workers.num_workers > 1:
                finite = tf.equal(build.workers.sum(tf.cast(tf.logical_not(finite), tf.int32)), 0)
        _warn_of_others(build.update_ops, self.valid.op)
        for op in self.valid.consumers():
            versions.replace_inputs(op, self.valid, finite)
        self.valid = finite

    def update(self):
        """The op that adapts the scale to how this step went; the gradients must have been taken before."""
        good_steps = self._good_steps.read_value() + 1
        grown = good_steps >= _GROWTH_STEPS
        scale = tf.where_v2(
            self.valid, tf.where_v2(grown, tf.minimum(self.value * 2, _LARGEST_SCALE), self.value),
            tf.maximum(self.value / 2, 1.))
        count = tf.where_v2(tf.logical_and(self.valid, tf.logical_not(grown)), good_steps, tf.zeros_like(good_steps))
        skipped = self._skipped.assign_add(tf.cast(tf.logical_not(self.valid), tf.int64))
        return tf.group(self._scale.assign(scale), self._good_steps.assign(count), skipped)


def _warn_of_others(entries, valid):
    others = sorted(set(
        name for op in map(update_ops.as_op, entries) if valid not in update_ops.runs_before(op)
        for name in update_ops.written_variables(op) or [op.name]))
    if others:
        logging.warning("A step whose float16 gradients are not finite is skipped, but these update ops of the model's own "
                        "cannot be: %s", ", ".join(others))
