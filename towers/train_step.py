"""One synchronous training step over all towers.

    towers' forward, one backward ──► tower gradients ┐
    update ops of all towers ─────────► (gate) ───────┴─► average ─► gradient_transform ─► (all of them) ─► apply

Two gates make the step the same on any number of towers. Averaging waits for every update op, so that no step ends with a
moving average unwritten. No apply op runs before every averaged gradient is computed: resource variables read inside a
loop, and variables that a gradient reads late, would otherwise be read after their update (measured: results that differ
from run to run in the third digit).
"""

import numbers

import tensorflow.compat.v1 as tf

from towers import finiteness, gradients, recomputation, summation, versions
from towers import precision as precisions
from towers import reduction as reductions
from towers.accumulation import Accumulator
from towers.building import Build


class TrainStep(object):
    """What `build_train_step` returns.

    Attributes:
      train_op: runs one step; increments `global_step` (with `accumulate_steps`, every so many runs; not where a float16
        step is skipped).
      loss: the mean of the tower losses, a scalar.
      tower_losses: each tower's loss, a list of scalars.
      outputs: what the model function returned, a list.
      grads_and_vars: averaged (gradient, variable) pairs before `gradient_transform`, of variables that have a gradient.
      tower_gradients: for each tower, a list aligned with `grads_and_vars` of the gradients of the sum of losses with
        respect to what this tower reads; None where a tower has none, or where the variable cannot be split by tower.
      update_ops: the update ops of all towers, one a variable, on which averaging waits.
      global_step: the step's variable.
      accumulate_steps: how many runs of `train_op` make one update.
      loss_scale: the loss scale of a float16 step, a scalar tensor; else None.
      finite_check: the `finiteness.FiniteCheck` on which the update waits, or None.
    """

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def build_train_step(model_fn, tower_inputs, optimizer, devices, aggregation_device="/cpu:0", global_step=None,
                     var_list=None, gradient_transform=None, cluster=None, accumulate_steps=1, precision=None,
                     recompute=False, check_finite=False, reduction="copy"):
    """Builds the towers with `training=True`, their gradients, the average and the update.

    Args:
      model_fn: returns a scalar loss, or a dict with the key `'loss'`; called as in `build`.
      tower_inputs: one entry a tower (from `split_batch`).
      optimizer: a `tf.train.Optimizer`.
      devices: one device string a tower.
      aggregation_device: where merges and averages are computed and variables live.
      global_step: the variable to increment; `None` gets or creates the graph's.
      var_list: the variables to train; `None` for all of TRAINABLE_VARIABLES.
      gradient_transform: `gradient_transform(grads_and_vars)` returns the pairs to apply; for clipping, weight decay or
        per-variable multipliers.
      cluster: a `Cluster` over whose workers the step reaches: `loss` and `grads_and_vars` are then over the towers of all
        workers; `tower_losses`, `outputs` and `tower_gradients` are this worker's. Every worker runs the same things.
      accumulate_steps: how many runs of `train_op` make one update (and one global step), each with a batch of its own: see
        `accumulation`. `loss` is that of one run, `grads_and_vars` the mean over the runs since the last update. The
        sums are local variables: initialise them too.
      precision: `'bfloat16'` or `'float16'` for half-precision towers over float32 variables (see `precision`), `'float32'`
        or None for the types as they are.
      recompute: whether to compute cheap activations again in the backward pass instead of keeping them: about half the
        memory of activations, the same gradients to the bit (see `recomputation`).
      check_finite: whether the update waits until losses and averaged gradients are known to be finite; where they are not,
        the run of `train_op` raises and applies nothing (see `finiteness`). Changes no number. With float16, where such a
        step is skipped and tried again with another scale, it changes nothing.
      reduction: how gradients are summed over towers: 'copy', on the aggregation device, or 'nccl', among GPUs (see
        `reduction`).

    Returns:
      A `TrainStep`.

    Raises:
      ValueError: the loss is no scalar, no variable has a gradient, or as `build` raises.
    """
    reduce = reductions.of(reduction, devices)
    if not hasattr(optimizer, "apply_gradients"):
        raise ValueError("optimizer is %r; wanted a tf.compat.v1.train.Optimizer" % (optimizer,))
    if global_step is None and not tf.executing_eagerly():
        global_step = tf.train.get_or_create_global_step()
    if isinstance(accumulate_steps, bool) or not isinstance(accumulate_steps, numbers.Integral) or accumulate_steps < 1:
        raise ValueError("accumulate_steps is %r; wanted an integer of at least 1" % (accumulate_steps,))
    half = precisions.compute_dtype(precision)
    scale = None
    with tf.device(aggregation_device or ""):
        if half == tf.float16:
            scale = precisions.LossScale()
        accumulator = Accumulator(accumulate_steps, global_step) if accumulate_steps > 1 else None
    first_op = versions.next_op_id(tf.get_default_graph())
    build = Build(model_fn, tower_inputs, devices, aggregation_device, True, cluster,
                  global_step if accumulator is None else accumulator.run, half,
                  None if scale is None else scale.valid)
    losses = [_loss(result, i) for i, result in enumerate(build.results)]
    in_order = summation.keep_order(versions.operations_since(build.graph, first_op))
    losses = [in_order.get(loss.name, loss) for loss in losses]
    variables = tf.trainable_variables() if var_list is None else list(var_list)
    first_gradient_op = versions.next_op_id(build.graph)
    per_variable = gradients.compute(losses, variables, build, None if scale is None else scale.value)
    summation.keep_order(versions.operations_since(build.graph, first_gradient_op))
    if recompute:
        recomputation.recompute(build, first_gradient_op)
    per_variable = [g for g in per_variable if g.parts()]
    if not per_variable:
        raise ValueError("no variable has a gradient of the loss; wanted a loss that depends on at least one of: %s"
                         % (", ".join(v.op.name for v in variables) or "(there are no trainable variables)"))
    with tf.device(aggregation_device or ""):
        if scale is not None:
            scale.decide([part for g in per_variable for part in g.parts()], build)
            per_variable = gradients.unscaled(per_variable, scale.value)
        with tf.name_scope("average"):
            loss = build.workers.sum(summation.in_order(losses)) / tf.cast(build.num_towers, losses[0].dtype)
            with tf.control_dependencies([_after(build.update_ops, "update_ops")]):
                averaged = list(zip(gradients.averages(per_variable, build, reduce), [g.variable for g in per_variable]))
        tower_gradients = [[g.towers[i] for g in per_variable] for i in range(len(losses))]
        check = None
        if check_finite and scale is None:
            check = finiteness.FiniteCheck(losses, loss, averaged, tower_gradients, build)
            averaged = check.gate(averaged)
        if accumulator is not None:
            accumulator.add(averaged, None if scale is None else scale.valid)
            averaged = accumulator.means
        applied = list(gradient_transform(averaged)) if gradient_transform is not None else averaged
        if not applied:
            raise ValueError("gradient_transform returned no (gradient, variable) pair; wanted at least one to apply")
        train_op = _apply(optimizer, averaged, applied, global_step, accumulator, scale)
    return TrainStep(
        train_op=train_op, loss=loss, tower_losses=losses, outputs=build.results, grads_and_vars=averaged,
        tower_gradients=tower_gradients, update_ops=build.update_ops, global_step=global_step,
        loss_scale=None if scale is None else scale.value, accumulate_steps=accumulate_steps, finite_check=check)


def _apply(optimizer, averaged, applied, global_step, accumulator, scale):
    """The train op: applies the gradients when all are there, in runs that are due and valid."""
    waits_for = [part for gradient, _ in averaged + applied for part in _tensors(gradient)]
    all_gradients = _after(waits_for, "all_gradients")
    if accumulator is None and scale is None:
        with tf.control_dependencies([all_gradients]):
            return optimizer.apply_gradients(applied, global_step=global_step)
    with tf.control_dependencies([all_gradients]):
        due = tf.identity(scale.valid if accumulator is None else accumulator.due)

    scope = versions.name_scope(tf.get_default_graph())

    def apply():
        with tf.name_scope(scope + "/" if scope else None):  # an optimizer's own variables are named by it
            update = optimizer.apply_gradients(applied)
        with tf.control_dependencies([update]):
            cleared = [] if accumulator is None else [accumulator.clear()]
        with tf.control_dependencies([update] + cleared):
            return tf.constant(1)

    # Optimizers make their variables in `init_scope`, which leaves a function for what was the context outside: by this for
    # the graph, and not for an eager one that may have been before eager execution was disabled.
    with tf.get_default_graph().as_default():
        done = tf.cond(due, apply, lambda: tf.constant(0), name="apply_if_due")
    # Outside of the cond: the step may be a ref variable (TensorFlow 1's default), which functions cannot take.
    count = tf.assign_add(global_step, tf.cast(done, global_step.dtype.base_dtype)).op
    with tf.control_dependencies([all_gradients]):  # which were computed with the scale of before
        return tf.group(count, *([] if scale is None else [scale.update()]), name="train_op")


def _loss(result, index):
    if isinstance(result, dict):
        if "loss" not in result:
            raise ValueError("tower %d returned a dict with the keys %s; wanted the key 'loss' among them"
                             % (index, sorted(map(str, result))))
        result = result["loss"]
    if isinstance(result, (tuple, list)):
        raise ValueError("tower %d returned a %s; wanted a scalar loss, or a dict with the key 'loss' and whatever else is to "
                         "be in TrainStep.outputs" % (index, type(result).__name__))
    loss = tf.convert_to_tensor(result) if result is not None else None
    if loss is None or not loss.dtype.is_floating or loss.shape.ndims not in (None, 0):
        raise ValueError("the loss of tower %d is %s; wanted a scalar float tensor" % (
            index, "None" if loss is None else "a %s tensor of shape %s" % (loss.dtype.name, loss.shape)))
    return tf.cast(loss, tf.float32) if loss.dtype in (tf.float16, tf.bfloat16) else loss


def _after(entries, name):
    """One op that runs after all `entries`."""
    return tf.group(*[getattr(entry, "op", entry) for entry in entries], name=name)


def _tensors(gradient):
    if gradient is None:
        return []
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [tf.convert_to_tensor(gradient)]
