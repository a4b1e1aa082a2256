"""All towers' gradients for the price of one backward pass, and their average.

One `tf.gradients` call over the sum of all tower losses, with respect to the tensors through which each tower reads the
variables, gives every tower its own gradients. (A call a tower loss would walk back through all other towers behind every
synchronised layer: 4 towers cost 3.1 times the step.) The reads are found in the graph:

- a `ReadVariableOp` or `ResourceGather` on a variable's handle that a tower made, on a path to a loss: that tower's read;
- any other consumer of the handle on such a path (control flow, a merge function, a read outside the towers): the
  variable cannot be split by tower, and its gradient is taken whole, with respect to the variable.

With g_i the gradient of the sum of losses with respect to tower i's reads, the average is sum_i g_i / num_towers, over
the towers of all workers.
"""

import collections

import tensorflow.compat.v1 as tf
from absl import logging

from towers import constants, summation, versions

# Gradients of at most this many elements cross devices packed, one vector a tower.
_SMALL = 2**14

_READS = ("ReadVariableOp", "ResourceGather")

KIND = "gradients"  # of their sums over workers


class VariableGradients(collections.namedtuple("VariableGradients", "variable towers whole")):
    """The gradients of one variable.

    Attributes:
      variable: the variable.
      towers: one gradient a tower (a tensor, `tf.IndexedSlices` or None), or Nones where it could not be split.
      whole: the gradient of the sum of losses where it could not be split, else None.
    """

    def parts(self):
        """All gradients that add up to that of the sum of losses."""
        return [g for g in list(self.towers) + [self.whole] if g is not None]


def compute(losses, variables, build, scale=None):
    """Gradients of the sum of `losses` by variable and tower.

    Args:
      losses: one scalar a tower.
      variables: the variables.
      build: the `building.Build` that made the towers.
      scale: a scalar float32 tensor by which all gradients come out multiplied, or None.

    Returns:
      A list of `VariableGradients`, one for each of `variables`.
    """
    num_towers = len(losses)
    on_path = ancestors(losses)
    reads = [_reads_by_tower(variable, on_path, build) for variable in variables]
    xs = []
    for variable, by_tower in zip(variables, reads):
        xs.extend([variable] if by_tower is None else [read.outputs[0] for read, _ in by_tower])
    scales = None if scale is None else [tf.cast(scale, loss.dtype) for loss in losses]
    gradients = iter(tf.gradients(
        losses, xs, scales, colocate_gradients_with_ops=True,
        aggregation_method=summation.GRADIENT_AGGREGATION) if xs else [])
    result = []
    for variable, by_tower in zip(variables, reads):
        if by_tower is None:
            result.append(VariableGradients(variable, [None] * num_towers, next(gradients)))
            continue
        towers = [[] for _ in range(num_towers)]
        for read, index in by_tower:
            gradient = next(gradients)
            if gradient is not None:
                towers[index].append(_of_variable(gradient, read, variable))
        with tf.name_scope("gradients/sum_of_reads"):
            result.append(VariableGradients(
                variable, [_add(parts, build.devices[i]) for i, parts in enumerate(towers)], None))
    _warn_of_missing(result)
    return result


def unscaled(per_variable, scale):
    """`per_variable` divided by the scale that `compute` multiplied by, each part where it is."""
    def divide(part):
        if part is None:
            return None
        if isinstance(part, tf.IndexedSlices):
            return tf.IndexedSlices(divide(part.values), part.indices, part.dense_shape)
        with tf.colocate_with(part.op):
            return part / tf.cast(scale, part.dtype)

    return [VariableGradients(g.variable, [divide(part) for part in g.towers], divide(g.whole)) for g in per_variable]


def averages(per_variable, build, reduce=summation.in_order):
    """The average over all towers of each variable's gradients: dense where any part is dense, else `tf.IndexedSlices`.

    Called under the control dependencies that gate the update, so that every op of the averages waits for them.

    Args:
      per_variable: a list of `VariableGradients`.
      build: the `building.Build` that made the towers.
      reduce: from a list of tensors, one a tower, to their sum (see `reduction`).

    Returns:
      A list of gradients.
    """
    totals = _totals(per_variable, build, reduce)
    if build.workers.num_workers > 1:
        totals = _over_workers(totals, [gradients.variable for gradients in per_variable], build.workers)
    return [_divide(total, float(build.num_towers), build.aggregation_device or "") for total in totals]


def _totals(per_variable, build, reduce):
    """The sum over towers of each variable's gradients; small ones of one dtype as one vector a tower."""
    small = collections.defaultdict(list)
    for i, gradients in enumerate(per_variable):
        parts = gradients.towers
        if len(parts) > 1 and _all_dense(parts) and gradients.variable.shape.num_elements() <= _SMALL:
            small[parts[0].dtype].append(i)
    totals = {}
    for chosen in small.values():
        if len(chosen) > 1:
            totals.update(zip(chosen, _packed_totals([per_variable[i] for i in chosen], build, reduce)))
    for i, gradients in enumerate(per_variable):
        if i not in totals:
            whole_towers = len(gradients.towers) > 1 and _all_dense(gradients.towers)
            totals[i] = reduce(gradients.towers) if whole_towers else add(gradients.parts())
    return [totals[i] for i in range(len(per_variable))]


def _all_dense(parts):
    return all(isinstance(part, tf.Tensor) and part.dtype == parts[0].dtype for part in parts)


def _packed_totals(per_variable, build, reduce):
    shapes = [gradients.variable.shape for gradients in per_variable]
    vectors = []
    for index, device in enumerate(build.devices):
        with tf.device(device):
            parts = [gradients.towers[index] for gradients in per_variable]
            vectors.append(tf.concat([part if shape.ndims == 1 else tf.reshape(part, [-1])
                                      for part, shape in zip(parts, shapes)], 0))
    totals = tf.split(reduce(vectors), [shape.num_elements() for shape in shapes])
    return [total if shape.ndims == 1 else tf.reshape(total, shape) for total, shape in zip(totals, shapes)]


def _over_workers(totals, variables, workers):
    """The sums over workers: the dense ones in a few packed collectives, slices one behind the other."""
    dense = [i for i, total in enumerate(totals) if not isinstance(total, tf.IndexedSlices)]
    sums = dict(zip(dense, workers.sums([tf.reshape(totals[i], variables[i].shape) for i in dense], KIND)))
    return [sums[i] if i in sums else tf.IndexedSlices(
        workers.concat(total.values, kind=KIND), workers.concat(total.indices, kind=KIND), total.dense_shape)
        for i, total in enumerate(totals)]


def _divide(total, num_towers, device):
    divisor = constants.shared(num_towers, total.dtype, device)
    if isinstance(total, tf.IndexedSlices):
        return tf.IndexedSlices(total.values / divisor, tf.identity(total.indices), total.dense_shape)
    return total / divisor


def add(parts):
    """The sum of gradients, each a tensor or `tf.IndexedSlices`; slices are concatenated and stay slices."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, tf.IndexedSlices) for part in parts):
        return tf.IndexedSlices(
            tf.concat([part.values for part in parts], 0),
            tf.concat([tf.cast(part.indices, tf.int64) for part in parts], 0), parts[0].dense_shape)
    return summation.in_order([tf.convert_to_tensor(part) for part in parts])


def _add(parts, device):
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    with tf.device(device):
        return add(parts)


def ancestors(tensors):
    """All ops from which `tensors` are computed, themselves included: a set."""
    seen, pending = set(), [tensor.op for tensor in tensors]
    while pending:
        op = pending.pop()
        if op not in seen:
            seen.add(op)
            pending.extend(tensor.op for tensor in op.inputs)
    return seen


def _reads_by_tower(variable, on_path, build):
    """The (read op, tower) pairs of `variable`, or None where its gradient must be taken whole."""
    if not versions.is_resource_variable(variable):
        return None
    reads = []
    for op in versions.consumers(variable.handle):
        if op not in on_path:
            continue
        tower = build.tower_of(op)
        splits = (op.type in _READS and tower is not None and versions.op_control_flow_context(op) is None
                  and (op.type != "ResourceGather" or op.get_attr("batch_dims") == 0))
        if not splits:
            return None
        reads.append((op, tower))
    return reads


def _of_variable(gradient, read, variable):
    """The gradient of the variable from that of one read's output."""
    if read.type == "ReadVariableOp":
        return gradient
    with tf.name_scope("gradients/gather"), read.graph.colocate_with(read):
        indices = tf.reshape(read.inputs[1], [-1])
        row = variable.shape.as_list()[1:]
        values = tf.reshape(tf.convert_to_tensor(gradient), tf.concat([tf.shape(indices), row], 0))
        return tf.IndexedSlices(values, indices, tf.constant(variable.shape.as_list(), tf.int64))


def _warn_of_missing(gradients):
    """One warning for the variables without any gradient, one for those without in some towers only."""
    none = [g.variable.op.name for g in gradients if not g.parts()]
    if none:
        logging.warning("No gradient in any tower, left out of the step: %s", ", ".join(none))
    some = ["%s (tower %s)" % (g.variable.op.name, ", ".join(str(i) for i, part in enumerate(g.towers) if part is None))
            for g in gradients if g.whole is None and g.parts() and None in g.towers]
    if some:
        logging.warning("No gradient in some towers, taken as zero there: %s", ", ".join(some))
