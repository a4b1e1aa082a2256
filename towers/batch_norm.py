"""Batch normalisation, over all towers (`sync_bn`) or over each tower's own batch (`layers.batch_normalization`).

    y = gamma (x - mean) / sqrt(variance + epsilon) + beta

In training, mean and variance are those of the batch: of all towers' batches together, weighted by the number of values, of
those of a group of towers, or of the tower's own. Otherwise they are the moving ones. After Ioffe and Szegedy, "Batch
Normalization" (2015).

State. One moving mean and one moving variance, shared by all towers, written once a step by an update op of tower 0:

    moving <- moving - (1 - momentum) (moving - batch)          momentum=None: moving - (moving - batch) / (updates + 1)

The moving variance takes the unbiased batch variance, M2 / (count - 1). Where any batch statistic is not finite, the
update leaves the state as it was.

With groups of towers there is still one state, over all groups and the same on every worker. It takes the mean of the whole
batch and the pooled variance within groups, sum M2_g / sum (count_g - 1): for equal batches the means of the groups' own.
Workers of different groups do not wait for each other in a layer; one sum over all workers, of all layers together, gives
both at the end of the forward pass.
"""

import numbers

import tensorflow.compat.v1 as tf

from towers import channel_ops, constants, groups, merging, moments, scopes, versions
from towers.tower import current_tower


def sync_bn(inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
            beta_initializer=tf.zeros_initializer(), gamma_initializer=tf.ones_initializer(),
            moving_mean_initializer=tf.zeros_initializer(), moving_variance_initializer=tf.ones_initializer(),
            beta_regularizer=None, gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
            training=None, trainable=True, name=None, reuse=None, renorm=False, renorm_clipping=None,
            renorm_momentum=0.99, fused=None, virtual_batch_size=None, adjustment=None, statistics="sum", group_size=None):
    """Batch normalisation with the statistics of all towers' batches together, or of those of a group of towers.

    Exactly what one device would compute on the concatenated batch, forward and backward; see `moments` for the
    arithmetic. Each tower sends 3 vectors of length C and a count; activations stay where they are. Without training
    (`training=False`) no tower waits for another.

    Args:
      inputs: `[N, ..., C]`, rank 2 or more, of a float dtype; N and the sizes between may be unknown and may differ
        between towers. Half-precision inputs are normalised with float32 statistics.
      axis: the channel axis: -1, or 1 for `[N, C, H, W]`.
      momentum: of the moving averages; `None` keeps the cumulative average of all updates (and `num_updates`).
      epsilon: added to the variance.
      center, scale: whether there is a beta, a gamma.
      beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer: as named.
      beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint: as named.
      training: a bool, a scalar bool tensor, or `None` for `current_tower().training`. `False` freezes the statistics.
      trainable: `False` freezes gamma and beta.
      name: the scope, `batch_normalization` made unique by default.
      reuse: whether to reuse the variables of `name`.
      fused: accepted for compatibility; the fast kernels are chosen by dtype and axis.
      renorm, renorm_clipping, renorm_momentum, virtual_batch_size, adjustment: not supported; must be left as they are.
      statistics: `'sum'` or `'concat'`, how towers' statistics are combined: the same numbers, two ways to the sum.
      group_size: how many consecutive towers share statistics, counted over all workers (see `groups`): a divisor of the
        number of towers and, across workers, of or into the towers of a worker. `None`: all. The moving statistics
        are over all groups; what is not training takes no notice.

    Returns:
      A tensor like `inputs`.

    Raises:
      ValueError: an argument is out of its range, the number of channels or the rank is unknown, or the towers do not divide
        into groups of that size.
    """
    arguments = dict(locals())
    if statistics not in moments.STATISTICS:
        raise ValueError("statistics is %r; wanted 'sum' or 'concat'" % (statistics,))
    return _batch_norm(arguments)


def batch_normalization(arguments):
    """The plain layer: what `layers.batch_normalization` calls with its arguments in a dict."""
    if arguments["group_size"] is not None:
        raise ValueError("group_size is %r in a batch normalisation of each tower's own batch; wanted sync=True with it, or "
                         "None" % (arguments["group_size"],))
    return _batch_norm(dict(arguments, statistics=None))


def _batch_norm(args):
    """Both layers, in their scope; `args['statistics']` is None for the plain one."""
    with scopes.layer(args["name"], "batch_normalization", args["reuse"]):
        return normalize(args, _add_to_update_ops)


def _add_to_update_ops(updates):
    for update in updates:
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)


def normalize(args, keep_updates, collections=lambda name: None):
    """The layer in the current variable scope, for layers with other arguments than these.

    Args:
      args: a dict of the arguments of `sync_bn`; `statistics` is None for the tower's own batch.
      keep_updates: called with the update ops of this step, a list (unless this is no tower that keeps state): now, or with
        groups of towers and several workers at the end of the model function.
      collections: from a variable's name to the collections it is put into.

    Returns:
      The normalised inputs.
    """
    x = tf.convert_to_tensor(args["inputs"])
    axis = _check(x, args)
    training = args["training"]
    training = scopes.constant_bool(current_tower().training if training is None else training)
    groups.check(args["group_size"])
    state = _State(x, axis, args, collections, keep_updates)
    values = x if x.dtype == state.dtype else tf.cast(x, state.dtype)
    if training is False:
        y = _normalize(values, tf.convert_to_tensor(state.moving_mean), state.inverse_deviation(), state, axis)
    else:
        y = _train(values, training, state, args, axis)
    return y if x.dtype == state.dtype else tf.cast(y, x.dtype)


def _train(x, training, state, args, axis):
    """Normalises with batch statistics, or with the moving ones where the tensor `training` is false."""
    sync = args["statistics"] is not None
    if not sync and training is True and _fused_training(x, axis, args):
        return _fused(x, state, args)
    shifted, pivot = moments.shift(x, axis)
    if sync:
        group = groups.of(args["group_size"])
        batch = moments.all_moments(shifted, pivot, axis, args["epsilon"], args["statistics"], group)
        _keep(batch, group, state, training, args["momentum"])
    else:
        batch = moments.tower_moments(shifted, pivot, axis, args["epsilon"])
        freedom = batch.freedom if _like_fused(x, axis, args) else None
        state.update(batch.mean, batch.variance, batch.count, freedom, training, args["momentum"])
    center, inverse_deviation = batch.center, batch.inverse_deviation
    if training is not True:
        center = tf.where_v2(training, center, state.moving_mean - pivot)
        inverse_deviation = tf.where_v2(training, inverse_deviation, state.inverse_deviation())
    return _normalize(shifted, center, inverse_deviation, state, axis)


def _keep(batch, group, state, training, momentum):
    """Updates the state with a batch's `Moments`: at the end of the model function, if other workers hold other groups."""
    if group.is_all or merging.workers().num_workers == 1:
        state.update(*batch[:4], training=training, momentum=momentum)
    elif current_tower().keeps_state:
        scope = versions.name_scope(tf.get_default_graph())

        def update(total):
            with tf.name_scope(scope + "/"):
                state.update(*moments.of_all_workers(total, state.dtype), training=training, momentum=momentum)

        merging.sum_at_end(moments.for_all_workers(batch, group), update)


def _normalize(x, center, inverse_deviation, state, axis):
    scale = inverse_deviation if state.gamma is None else inverse_deviation * state.gamma
    return channel_ops.channel_affine(x, center, scale, state.offset(), axis)


def _fused(x, state, args):
    """TensorFlow's one-pass training kernel, with its gradient; the variance it returns is unbiased already."""
    gamma = constants.shared(1., tf.float32, x.device, [x.shape.as_list()[3]]) if state.gamma is None else state.gamma
    nothing = constants.shared(0., tf.float32, x.device, [0])
    out = tf.raw_ops.FusedBatchNormV3(
        x=x, scale=gamma, offset=state.offset(), mean=nothing, variance=nothing, epsilon=args["epsilon"], is_training=True)
    count = x.shape.num_elements() or tf.size(x)  # only whether there are any
    state.update(out.batch_mean, out.batch_variance, count, None, True, args["momentum"])
    return out.y


class _State(object):
    """A layer's variables: beta, gamma, moving mean and variance, in float32 for half-precision inputs."""

    def __init__(self, x, axis, args, collections, keep_updates):
        self._keep_updates = keep_updates
        self.dtype = tf.float32 if x.dtype in (tf.float16, tf.bfloat16) else x.dtype
        self._channels = channels = x.shape.as_list()[axis]
        self._device = x.device
        self._epsilon = args["epsilon"]
        trainable = args["trainable"]

        def variable(name, **kwargs):
            return tf.get_variable(name, [channels], self.dtype, initializer=args[name + "_initializer"],
                                   collections=collections(name), **kwargs)

        self.gamma = self.beta = None
        if args["scale"]:
            self.gamma = variable("gamma", regularizer=args["gamma_regularizer"], constraint=args["gamma_constraint"],
                                  trainable=trainable)
        if args["center"]:
            self.beta = variable("beta", regularizer=args["beta_regularizer"], constraint=args["beta_constraint"],
                                 trainable=trainable)
        # Statistics are aggregated by the layer itself and get no regulariser from an enclosing scope.
        self.moving_mean = variable("moving_mean", trainable=False, regularizer=scopes.no_regularizer)
        self.moving_variance = variable("moving_variance", trainable=False, regularizer=scopes.no_regularizer)
        self._num_updates = None
        if args["momentum"] is None:
            self._num_updates = tf.get_variable("num_updates", [], tf.int64, initializer=tf.zeros_initializer(),
                                                trainable=False, regularizer=scopes.no_regularizer,
                                                collections=collections("num_updates"))

    def offset(self):
        """Beta, or zeros."""
        if self.beta is None:
            return constants.shared(0., self.dtype, self._device, [self._channels])
        return tf.convert_to_tensor(self.beta)

    def inverse_deviation(self):
        """(moving variance + epsilon)^(-1/2)."""
        return tf.rsqrt(self.moving_variance + self._epsilon)

    def update(self, mean, variance, count, freedom, training, momentum):
        """Makes the update ops of this step, in tower 0 only; the variance is corrected first unless `freedom` is None."""
        if not current_tower().keeps_state:
            return
        updates = []
        with tf.name_scope("update"), tf.control_dependencies(self._earlier_updates()):
            if freedom is not None:
                variance *= self._number(count / (tf.maximum(freedom, 1) if tf.is_tensor(freedom) else max(freedom, 1)))
            due = tf.reduce_all(tf.is_finite(mean + variance), constants.shared(0, tf.int32, mean.device))
            if tf.is_tensor(count) or not count > 0:
                due &= count > 0
            if training is not True:
                due &= training
            if current_tower().step_is_valid is not None:
                due &= current_tower().step_is_valid
            if momentum is None:
                rate = 1 / (tf.cast(self._num_updates, self.dtype) + 1)
            else:
                rate = self._number(1 - momentum)
            for moving, batch in ((self.moving_mean, mean), (self.moving_variance, variance)):
                step = tf.where_v2(due, (moving - batch) * rate, self._number(0.))
                updates.append(moving.assign_sub(step, read_value=False))
            if momentum is None:
                with tf.control_dependencies(updates):
                    updates.append(tf.assign_add(self._num_updates, tf.cast(due, tf.int64)).op)
        self._keep_updates(updates)

    def _number(self, value):
        """A constant for a number; a tensor as it is."""
        return constants.shared(float(value), self.dtype, self._device) if isinstance(value, numbers.Real) else value

    def _earlier_updates(self):
        """The update ops of a layer that shares these variables and came before: two writes must not race."""
        ours = [variable.op for variable in (self.moving_mean, self.moving_variance, self._num_updates)
                if variable is not None]
        return [op for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS)
                if isinstance(op, tf.Operation) and op.inputs and op.inputs[0].op in ours]


def _check(x, args):
    """Checks the arguments; returns the channel axis, not negative."""
    axis = args["axis"]
    if isinstance(axis, (list, tuple)) and len(axis) == 1:
        axis = axis[0]
    rank = x.shape.ndims
    if not x.dtype.is_floating:
        raise ValueError("inputs of batch normalisation are %s; wanted a float dtype" % x.dtype.name)
    if rank is None or rank < 2:
        raise ValueError("inputs of batch normalisation have shape %s; wanted a known rank of 2 or more" % x.shape)
    if isinstance(axis, bool) or not isinstance(axis, numbers.Integral) or not -rank <= axis < rank or axis % rank == 0:
        raise ValueError("axis is %r for inputs of shape %s; wanted one axis, not the batch's" % (args["axis"], x.shape))
    if x.shape.as_list()[axis] is None:
        raise ValueError("inputs of batch normalisation have shape %s; the channels (axis %d) must be known"
                         % (x.shape, axis))
    momentum = args["momentum"]
    if isinstance(momentum, numbers.Real) and not 0 <= momentum <= 1:
        raise ValueError("momentum is %r; wanted a number from 0 to 1, or None for a cumulative average" % momentum)
    if isinstance(args["epsilon"], numbers.Real) and args["epsilon"] < 0:
        raise ValueError("epsilon is %r; wanted a number that is not negative" % args["epsilon"])
    for name, default in (("renorm", False), ("renorm_clipping", None), ("virtual_batch_size", None),
                          ("adjustment", None)):
        if args[name] is not default and args[name] != default:
            raise ValueError("%s is %r; it is not supported: leave it at %r" % (name, args[name], default))
    if args["statistics"] is None and args["fused"] and (rank != 4 or axis % rank not in (1, 3)):
        raise ValueError("fused=True for inputs of shape %s and axis %d; wanted rank 4 and axis 1 or 3" % (x.shape, axis))
    return axis % rank


def _like_fused(x, axis, args):
    """Whether `tf.layers` would use its fused op, whose moving variance is unbiased."""
    original = tf.convert_to_tensor(args["inputs"]).dtype
    return x.shape.ndims == 4 and axis in (1, 3) and args["fused"] is not False and original != tf.float64


def _fused_training(x, axis, args):
    return _like_fused(x, axis, args) and axis == 3 and x.dtype == tf.float32
