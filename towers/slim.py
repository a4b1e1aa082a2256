"""slim's batch norm over all towers: `towers.slim.batch_norm` in place of `slim.batch_norm`.

An unmodified slim network trains with synchronised batch norm when this is its `normalizer_fn`:

    with slim.arg_scope([slim.conv2d], normalizer_fn=towers.slim.batch_norm,
                        normalizer_params={"decay": 0.9, "epsilon": 1e-5, "scale": True}):
        net, _ = resnet_v1.resnet_v1_50(images, ...)

slim is tf.contrib.slim on TensorFlow 1.15. On 2.x it is the package tf_slim, whose layers are those of the package tf_keras
under an older name, which must be given back before the first of them is used:

    import sys
    import tf_keras
    from tf_keras.src import legacy_tf_layers
    sys.modules["tf_keras.legacy_tf_layers"] = tf_keras.legacy_tf_layers = legacy_tf_layers
    import tf_slim as slim

Variables have slim's names (`BatchNorm/{beta,gamma,moving_mean,moving_variance}`), so checkpoints of the two are
interchangeable. The function takes part in `slim.arg_scope` where slim (tf_slim, or tf.contrib.slim on TensorFlow 1.15)
was imported before `towers.slim.batch_norm` is first named.
"""

import tensorflow.compat.v1 as tf

from towers import batch_norm as sync
from towers import merging, versions
from towers.tower import current_tower

_scoped = {}


def _batch_norm(inputs, decay=0.999, center=True, scale=False, epsilon=0.001, activation_fn=None,
                param_initializers=None, param_regularizers=None, updates_collections=tf.GraphKeys.UPDATE_OPS,
                is_training=None, reuse=None, variables_collections=None, outputs_collections=None, trainable=True,
                batch_weights=None, fused=None, data_format="NHWC", zero_debias_moving_mean=False, scope=None,
                renorm=False, renorm_clipping=None, renorm_decay=0.99, adjustment=None, statistics="sum",
                group_size=None):
    """`slim.batch_norm` with the statistics of all towers; arguments as there.

    Two differ: `is_training=None` (the default) means `towers.current_tower().training`; `statistics` and `group_size`
    are as in `towers.sync_bn`. `batch_weights`, `zero_debias_moving_mean`, `renorm` and `adjustment` are not supported.
    """
    for name, value in (("batch_weights", batch_weights), ("zero_debias_moving_mean", zero_debias_moving_mean),
                        ("renorm", renorm), ("adjustment", adjustment)):
        if value is not None and value is not False:
            raise ValueError("%s is %r; towers.slim.batch_norm does not support it: leave it out" % (name, value))
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format is %r; wanted 'NHWC' or 'NCHW'" % (data_format,))
    if updates_collections is None and merging.workers().num_workers > 1 and group_size not in (
            None, current_tower().num_towers):
        raise ValueError("updates_collections is None with group_size=%r and %d workers, whose moving statistics are summed "
                         "at the end of the model; wanted a collection's name" % (group_size, merging.workers().num_workers))
    initializers, regularizers = param_initializers or {}, param_regularizers or {}
    arguments = dict(
        inputs=inputs, axis=1 if data_format == "NCHW" else -1, momentum=decay, epsilon=epsilon, center=center, scale=scale,
        beta_initializer=initializers.get("beta", tf.zeros_initializer()),
        gamma_initializer=initializers.get("gamma", tf.ones_initializer()),
        moving_mean_initializer=initializers.get("moving_mean", tf.zeros_initializer()),
        moving_variance_initializer=initializers.get("moving_variance", tf.ones_initializer()),
        beta_regularizer=regularizers.get("beta"), gamma_regularizer=regularizers.get("gamma"),
        beta_constraint=None, gamma_constraint=None, training=is_training, trainable=trainable, renorm=False,
        renorm_clipping=None, virtual_batch_size=None, adjustment=None, fused=fused, statistics=statistics,
        group_size=group_size)
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as variable_scope:
        made = []

        def keep(updates):
            made.extend(updates)
            for update in updates:
                tf.add_to_collections(updates_collections or [], update)

        outputs = sync.normalize(arguments, keep, _collections(variables_collections))
        if updates_collections is None:  # slim's way to say "in place"
            with tf.control_dependencies(made):
                outputs = tf.identity(outputs)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        if outputs_collections:
            outputs.aliases = getattr(outputs, "aliases", None) or [variable_scope.original_name_scope.rstrip("/")]
            tf.add_to_collections(outputs_collections, outputs)
        return outputs


def _collections(variables_collections):
    """For each variable, the collections beside GLOBAL_VARIABLES: slim's MODEL_VARIABLES and the caller's."""
    def of(name):
        more = variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections
        more = [more] if isinstance(more, str) else list(more or [])
        return [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES] + more
    return of


def __getattr__(name):
    """`batch_norm`, known to the arg scopes of whichever slim is imported."""
    if name != "batch_norm":
        raise AttributeError("module 'towers.slim' has no attribute %r" % name)
    modules = versions.arg_scope_modules()
    key = modules[0].__name__ if modules else None
    if key not in _scoped:
        _scoped[key] = modules[0].add_arg_scope(_batch_norm) if modules else _batch_norm
    return _scoped[key]
