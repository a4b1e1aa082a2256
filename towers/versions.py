"""What differs between TensorFlow versions, and every private name towers rests on.

One code base serves TensorFlow 1.15 to 2.21. The public `tensorflow.compat.v1` names are the same in all of them; what
is not lives here, each entry with the versions it is for, so that a new TensorFlow is met by reading one file.
"""

import contextlib
import sys

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops, variable_scope

# Stacks that `Graph.switch_to_thread_local` makes each thread's own, plus those that always were.
# `_resource_creator_stack` came after 1.15.
_THREAD_STACKS = (
    "_device_function_stack",
    "_colocation_stack",
    "_control_dependencies_stack",
    "_variable_creator_stack",
    "_resource_creator_stack",
)

# Maps that belong to the whole graph although a `with` block changes them (1.15 to 2.21).
_GRAPH_MAPS = ("_gradient_override_map", "_op_to_kernel_label_map", "_attr_scope_map")

# Modules that keep slim's arg-scope stack, global to the process: tf_slim (any version) and tf.contrib (1.15 only).
_ARG_SCOPE_MODULES = (
    "tf_slim.ops.arg_scope",
    "tensorflow.contrib.framework.python.ops.arg_scope",
    "tensorflow_core.contrib.framework.python.ops.arg_scope",
)


def capture_thread_stacks(graph):
    """Copies of the calling thread's device, colocation, control-dependency and creator stacks of `graph`."""
    graph.switch_to_thread_local()
    stacks = {}
    for name in _THREAD_STACKS:
        if hasattr(graph, name):
            stack = getattr(graph, name)
            stacks[name] = stack.copy() if hasattr(stack, "copy") else stack[:]
    return stacks


def restore_thread_stacks(graph, stacks):
    """Puts copies of `stacks` (from `capture_thread_stacks`) in force in the calling thread."""
    for name, stack in stacks.items():
        setattr(graph, name, stack.copy() if hasattr(stack, "copy") else stack[:])


def capture_graph_maps(graph):
    """Copies of the graph-wide maps that gradient overrides, kernel labels and attribute scopes change."""
    return {name: dict(getattr(graph, name)) for name in _GRAPH_MAPS}


def restore_graph_maps(graph, maps):
    """Puts the contents of `maps` (from `capture_graph_maps`) back, in place."""
    for name, saved in maps.items():
        current = getattr(graph, name)
        current.clear()
        current.update(saved)


def replace_collection(graph, name, entries):
    """Puts the list object `entries` in the place of a collection's; returns the object that was there."""
    before = graph.get_collection_ref(name)
    graph._collections[name] = entries
    return before


def name_scope(graph):
    """The current name scope without a '/' at its end; '' at the top (where 1.15 says None)."""
    return graph.get_name_scope() or ""


def control_flow_context(graph):
    """The v1 control-flow context (`tf.cond`, `tf.while_loop`) that is open in `graph`, or None."""
    return graph._get_control_flow_context()


def op_control_flow_context(op):
    """The v1 control-flow context in which `op` was made, or None."""
    return op._get_control_flow_context()


def variable_scope_counts():
    """How often each variable scope was opened by the calling thread in the current graph: a dict by name."""
    return variable_scope.get_variable_scope_store().variable_scopes_count


def set_variable_scope_counts(counts):
    """Makes automatic names in the calling thread go on from `counts`."""
    variable_scope.get_variable_scope_store().variable_scopes_count = dict(counts)


def arg_scope_modules():
    """The modules of the slims that are imported, newest first: a list."""
    return [sys.modules[name] for name in _ARG_SCOPE_MODULES if name in sys.modules]


def arg_scope_stacks():
    """The process-wide arg-scope stacks of the slims that are imported: a list of lists, to be read or set in place."""
    stacks = []
    for module in arg_scope_modules():
        stack = getattr(module, "_ARGSTACK", None)
        if isinstance(stack, list) and not any(stack is other for other in stacks):
            stacks.append(stack)
    return stacks


def is_resource_variable(variable):
    """Whether `variable` is a resource variable (its reads are ops of their own) rather than a ref variable."""
    return resource_variable_ops.is_resource_variable(variable)


def op_determinism_enabled():
    """Whether `tf.config.experimental.enable_op_determinism` is on (2.9 and later; never before)."""
    try:
        from tensorflow.python.framework import config
        return config.is_op_determinism_enabled()
    except (ImportError, AttributeError):
        return False


def set_op_seed(op, seed, seed2):
    """Rewrites the two seeds of a random op that has not run yet."""
    op._set_attr("seed", attr_value_pb2.AttrValue(i=seed))
    op._set_attr("seed2", attr_value_pb2.AttrValue(i=seed2))


def collective_keys_are_by_group():
    """Whether groups of workers may use one instance key (tested on 2.21; not so on 1.15; what lies between takes no risk)."""
    return tuple(int(part) for part in tf.__version__.split(".")[:2]) >= (2, 21)


def set_op_note(op, name, text):
    """Gives an op an attribute of our own, whose name begins with '_'; `op.get_attr(name)` returns bytes."""
    op._set_attr(name, attr_value_pb2.AttrValue(s=text.encode()))


def add_control_inputs(op, control_inputs):
    """Makes `op`, which has not run yet, wait for `control_inputs` (ops)."""
    op._add_control_inputs(control_inputs)


def replace_inputs(op, old, new):
    """Makes `op`, which has not run yet, take the tensor `new` wherever it takes `old`."""
    for index, tensor in enumerate(op.inputs):
        if tensor is old:
            op._update_input(index, new)


def copy_op(op, inputs, control_inputs):
    """Another op like `op`, with other inputs, which waits for `control_inputs` (ops)."""
    attributes = {name: value for name, value in op.node_def.attr.items() if name != "_class"}  # where it stands
    with ops.control_dependencies(None), ops.control_dependencies(control_inputs):
        return op.graph.create_op(op.type, inputs, [tensor.dtype for tensor in op.outputs], name=op.name, attrs=attributes,
                                  op_def=op.op_def)


def op_id(op):
    """A number that grows with the order in which the ops of a graph were made."""
    return op._id


def next_op_id(graph):
    """A number above the `op_id` of every op so far, and not above that of any op to come."""
    operations = graph.get_operations()
    return op_id(operations[-1]) + 1 if operations else 1


def consumers(tensor):
    """The ops that read a tensor, in the order in which they were made (`tensor.consumers()` has none that lasts): a list."""
    return sorted(tensor.consumers(), key=op_id)


def operations_since(graph, number):
    """The ops of a graph whose `op_id` is `number` or more, in the order in which they were made: a list."""
    return [op for op in graph.get_operations() if op_id(op) >= number]


@contextlib.contextmanager
def unfinalized(graph):
    """Within it, ops can be added to `graph` although it is finalised."""
    finalized = graph.finalized
    graph._unsafe_unfinalize()
    try:
        yield
    finally:
        if finalized:
            graph.finalize()


def first_op_id(graph):
    """The `op_id` of a graph's first op: 1 in Python graphs (up to 2.15), 2 in the C++ ones after that."""
    operations = graph.get_operations()
    return op_id(operations[0]) if operations else 1


def graph_notes(graph):
    """A dict of our own that lives as long as `graph` does."""
    if not hasattr(graph, "_towers_notes"):
        graph._towers_notes = {}
    return graph._towers_notes


def gradient_registered(op_type):
    """Whether a gradient function is registered under the name `op_type`."""
    try:
        ops._gradient_registry.lookup(op_type)
        return True
    except LookupError:
        return False


def nccl_sum(tensors):
    """The sum of tensors on GPUs, by NCCL, on the current device, which must hold one of them."""
    from tensorflow.python.ops import nccl_ops
    return nccl_ops.reduce_sum(tensors)


def visible_gpus():
    """The GPUs TensorFlow may use, without claiming their memory: a list."""
    return tf.config.experimental.get_visible_devices("GPU")
