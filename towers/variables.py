"""Shared variables: tower 0 creates (or reuses, under a caller's reuse scope), every other tower reuses.

Three rules make a run on any number of towers keep the variables of one device:

- *One variable.* A tower above 0 that would create a global variable is an error that names it. Local variables (those of
  `tf.metrics`) are each tower's own.
- *One name.* A variable made under the tower's name scope (`tf.Variable`, Keras layers) is named as if there were no
  tower, so that no checkpoint holds a tower prefix.
- *One initial value.* TensorFlow derives an op's seed from the number of ops made before it, which grows with the
  towers. Under a graph seed (`tf.set_random_seed`), random ops of an initial value are seeded by the variable's name
  instead. A seed given to the initializer is kept.

Shared variables are resource variables, whatever the caller's default: the apply op of a ref variable may run before
another gradient has read that variable.
"""

import contextlib
import zlib

import tensorflow.compat.v1 as tf

from towers import precision, versions
from towers.tower import TowerError

_MAX_SEED = 2**31 - 1  # as in tf.get_seed


def is_global(collections):
    """Whether a variable made with this `collections` argument is a global one (`None` means it is)."""
    return collections is None or tf.GraphKeys.GLOBAL_VARIABLES in collections


def custom_getter(tower, half):
    """The custom getter of a tower's variable scope: sends `tf.get_variable` to the shared or the tower's own variable.

    Args:
      tower: the `Tower`.
      half: the half type whose variables are kept in float32, or None.
    """

    def variable_getter(getter, name, *args, **kwargs):
        if half is not None:
            getter = precision.stored_in_float32(getter, half)
        collections = kwargs.get("collections")
        if not is_global(collections) and tf.GraphKeys.LOCAL_VARIABLES in collections:
            if tower.local_index > 0:
                name, kwargs["reuse"] = "tower_%d/%s" % (tower.local_index, name), tf.AUTO_REUSE
        elif tower.local_index > 0:
            # What does not exist then reaches the creator below, which knows how to say so.
            kwargs["reuse"] = tf.AUTO_REUSE
            initializer = kwargs.get("initializer")
            if initializer is not None and not callable(initializer):
                # A value decides the dtype when it is made into a variable, but not when that is reused.
                kwargs["dtype"] = tf.convert_to_tensor(initializer).dtype.base_dtype
        return getter(name, *args, **kwargs)

    return variable_getter


def variable_creator(tower, scope, placing_variables, first_op):
    """The variable creator in force inside a tower.

    Args:
      tower: the `Tower`.
      scope: the tower's name scope, ending in '/', and the part of it that stays in a variable's name: a pair.
      placing_variables: a context manager under which ops go to the variables' device.
      first_op: the graph's version when the build began; initial values made before it keep their seeds.
    """

    def creator(next_creator, **kwargs):
        if not is_global(kwargs.get("collections")):
            return next_creator(**kwargs)
        if tower.local_index > 0:
            raise TowerError(_not_shared(tower.local_index, kwargs))
        kwargs["use_resource"] = True
        graph = tf.get_default_graph()
        with placing_variables(), _without_tower_scope(*scope), _unseeded(graph) as graph_seed:
            variable = next_creator(**kwargs)
        if graph_seed is not None:
            _seed_by_name(variable, graph_seed, first_op)
        return variable

    return creator


def _not_shared(index, kwargs):
    name = kwargs.get("name") or "Variable"
    return ("tower %d would create the variable %r, which tower 0 did not create; every tower must build the same layers "
            "with tf.get_variable or towers.layers under the same names (tf.Variable cannot be shared)" % (index, name))


@contextlib.contextmanager
def _without_tower_scope(scope, kept):
    """Leaves the tower's part of the current name scope, and keeps the rest of it."""
    current = versions.name_scope(tf.get_default_graph()) + "/"
    if not current.startswith(scope):
        yield
        return
    with tf.name_scope((kept + current[len(scope):]) or None):
        yield


@contextlib.contextmanager
def _unseeded(graph):
    """Hides the graph seed, so that ops without a seed of their own are known by having none; yields the seed."""
    seed = graph.seed
    if seed is None or versions.op_determinism_enabled():  # which refuses ops without a seed
        yield seed
        return
    graph.seed = None
    try:
        yield seed
    finally:
        graph.seed = seed


def _seed_by_name(variable, graph_seed, first_op):
    """Seeds the random ops of the variable's initial value by (graph seed, variable name)."""
    if getattr(variable, "initializer", None) is None:  # a caller's creator made something else of it
        return
    graph = variable.initializer.graph
    first_id = versions.first_op_id(graph) + first_op
    pending, seen, random_ops = [variable.initializer], set(), []
    while pending:
        op = pending.pop()
        if op in seen or op.graph is not graph or versions.op_id(op) < first_id:
            continue
        seen.add(op)
        pending.extend(tensor.op for tensor in op.inputs)
        if {"seed", "seed2"} <= set(attr.name for attr in op.op_def.attr):
            random_ops.append(op)
    own = zlib.crc32(variable.op.name.encode("utf-8"))
    graph_seed %= _MAX_SEED
    for i, op in enumerate(sorted(random_ops, key=versions.op_id)):
        seeds = op.get_attr("seed"), op.get_attr("seed2")
        if seeds == (0, 0) or seeds[0] == graph_seed:
            versions.set_op_seed(op, graph_seed, (own + i) % _MAX_SEED or _MAX_SEED)
        else:  # the initializer's own seed
            versions.set_op_seed(op, graph_seed, seeds[1])
