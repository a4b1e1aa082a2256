"""Batch normalisation folded into the convolution before it, on the frozen graph of a network.

A convolution, then maps that are affine in each channel, is one convolution with a bias:

    y = ((conv(x, K) + bias) - mean) · gamma / sqrt(var + eps) + beta
      = conv(x, K · a) + b        a = gamma / sqrt(var + eps),  b = (bias - mean) · a + beta

The graph is searched for what it computes, not for names, so any network will do, whatever layers and libraries it was
made with: from each convolution (also depthwise and transposed) or matrix product with a constant kernel, the chain of
`FusedBatchNorm*` at inference, `BiasAdd` and `Add`, `Sub`, `Mul`, `RealDiv` with constant vectors is followed for as long
as nobody else reads what is between; a dilated convolution's `BatchToSpaceND` may stand in between. A and b are
computed in float64. What follows no convolution (a norm before it, or after a sum) stays as it is.
"""

import collections

import numpy as np
import tensorflow.compat.v1 as tf

Folded = collections.namedtuple("Folded", "graph_def num_folded num_left")

_Linear = collections.namedtuple("_Linear", "op first channels")  # a convolution; whether its channels are in axis 1 of 4
_Chain = collections.namedtuple("_Chain", "linear steps maps")  # steps: (op, its input in the chain)

# Kernels are the second input of each; the axes of the kernel over which output channels are counted.
_KERNEL_AXES = {"Conv2D": (3,), "DepthwiseConv2dNative": (2, 3), "Conv2DBackpropInput": (2,), "MatMul": (1,)}
_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_ELEMENTWISE = ("Add", "AddV2", "Sub", "Mul", "RealDiv")
_SHAPE_ONLY = ("Shape", "ShapeN", "Size", "Rank")  # folding does not change what these read


def freeze(session, outputs):
    """The part of the session's graph that `outputs` (op names) need, with its variables' values as constants."""
    return tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), list(outputs))


def fold(graph_def, outputs):
    """Folds every chain that can be; the rest, and all names of inputs and outputs, are as they were.

    Args:
      graph_def: a frozen graph (see `freeze`).
      outputs: op names; nothing else may be fetched from the result.

    Returns:
      Folded(graph_def, num_folded, num_left): how many chains became a convolution with bias, and how many inference
      batch norms could not be folded.
    """
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    constant = _constant_ops(graph)
    chains = [chain for op in graph.get_operations() for chain in [_chain(op, constant, set(outputs))] if chain]
    with tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0})) as session:
        values = session.run([(chain.linear.op.inputs[1], [m.operands for m in chain.maps]) for chain in chains])
    result = _rewritten(graph_def, chains, values)
    result = tf.graph_util.extract_sub_graph(result, list(outputs))
    for node in result.node:
        node.attr.pop("_gradient_op_type", None)  # names a gradient that whoever loads the graph does not have
    return Folded(result, len(chains), sum(node.op in _NORMS for node in result.node))


def _constant_ops(graph):
    """Names of the ops whose values depend on constants only."""
    constant = set()
    for op in graph.get_operations():  # an imported graph lists producers first
        pure = not op.control_inputs and not (op.op_def is not None and op.op_def.is_stateful)
        if op.type == "Const" or (pure and op.inputs and all(x.op.name in constant for x in op.inputs)):
            constant.add(op.name)
    return constant


def _chain(op, constant, outputs):
    """The chain that starts at `op`, or None where there is nothing to fold."""
    linear = _linear(op, constant)
    if linear is None:
        return None
    tensor, steps, maps = op.outputs[0], [], []
    while tensor.op.name not in outputs:
        readers = [reader for reader in tensor.consumers() if reader.type not in _SHAPE_ONLY]
        if len(readers) != 1 or sum(x is tensor or x.name == tensor.name for x in readers[0].inputs) != 1:
            break
        step = readers[0]
        if not _keeps_channels(step, tensor, linear):
            mapped = _map(step, tensor, linear, constant)
            if mapped is None:
                break
            steps.append((step, tensor))
            maps.append(mapped)
        tensor = step.outputs[0]
    if not any(m.kind != "offset" for m in maps):  # a bias alone is there already
        return None
    return _Chain(linear, steps, maps)


def _linear(op, constant):
    if op.type not in _KERNEL_AXES or op.inputs[1].op.name not in constant or op.inputs[0].op.name in constant:
        return None
    if op.type == "MatMul":
        if op.get_attr("transpose_b"):
            return None
        first = False
    else:
        first = op.get_attr("data_format") == b"NCHW"
    kernel = op.inputs[1].shape.as_list()
    return _Linear(op, first, int(np.prod([kernel[i] for i in _KERNEL_AXES[op.type]])))


def _keeps_channels(step, tensor, linear):
    """Whether `step` only moves values about and each stays in its channel, the last axis."""
    if step.control_inputs or step.inputs[0].name != tensor.name:
        return False
    if step.type == "Identity":
        return True
    if linear.first or step.outputs[0].shape.ndims is None or tensor.shape.ndims is None:
        return False
    if step.type == "BatchToSpaceND":
        blocks = step.inputs[1].shape.as_list()
        return blocks[0] is not None and blocks[0] + 2 <= tensor.shape.ndims
    return step.type == "Reshape" and (
        step.outputs[0].shape.as_list()[-1] == tensor.shape.as_list()[-1] == linear.channels)


class _Map(object):
    """One step y = a x + b: its kind, and the tensors from which `affine` computes a and b once they are known."""

    def __init__(self, kind, operands, affine):
        self.kind, self.operands, self.affine = kind, operands, affine


def _map(step, tensor, linear, constant):
    """The `_Map` of an op that is affine in each channel of `tensor`; None where it is not one."""
    if step.control_inputs or tensor.shape.ndims is None or any(extra.consumers() for extra in step.outputs[1:]):
        return None
    axis = 1 if linear.first else tensor.shape.ndims - 1
    others = [x for x in step.inputs if x.name != tensor.name]
    if not others or any(x.op.name not in constant for x in others) or step.outputs[0].dtype != linear.op.outputs[0].dtype:
        return None
    if step.type in _NORMS:
        if step.get_attr("is_training") or step.inputs[0].name != tensor.name or _format_axis(step) != axis:
            return None
        epsilon = step.get_attr("epsilon")

        def normalised(scale, offset, mean, variance):
            a = scale / np.sqrt(variance + epsilon)
            return a, offset - mean * a
        return _Map("norm", list(step.inputs)[1:5], normalised)
    if step.type == "BiasAdd":
        if step.inputs[0].name != tensor.name or _format_axis(step) != axis:
            return None
        return _Map("offset", others, lambda bias: (1., bias))
    if step.type not in _ELEMENTWISE or not _by_channel(others[0], tensor, axis, linear.channels):
        return None
    first = step.inputs[0].name == tensor.name
    affine = {
        "Add": lambda v: (1., v), "AddV2": lambda v: (1., v), "Mul": lambda v: (v, 0.),
        "Sub": (lambda v: (1., -v)) if first else (lambda v: (-1., v)),
        "RealDiv": (lambda v: (1. / v, 0.)) if first else None,
    }[step.type]
    if affine is None:
        return None
    return _Map("offset" if step.type in ("Add", "AddV2") or (step.type == "Sub" and first) else "scale",
                others, lambda value: affine(np.reshape(value, [-1])))


def _format_axis(op):
    return 1 if op.get_attr("data_format") == b"NCHW" else op.inputs[0].shape.ndims - 1


def _by_channel(vector, tensor, axis, channels):
    """Whether `vector` broadcasts against `tensor` as one number, or one number a channel, and changes no shape."""
    if vector.shape.ndims is None or tensor.shape.ndims is None or vector.shape.ndims > tensor.shape.ndims:
        return False
    sizes = [1] * (tensor.shape.ndims - vector.shape.ndims) + vector.shape.as_list()
    return all(size == 1 or (i == axis and size == channels) for i, size in enumerate(sizes))


def _rewritten(graph_def, chains, values):
    """The graph with each convolution's kernel scaled, the last step of its chain a bias, and the others left out."""
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    nodes = {node.name: node for node in result.node}
    skipped = {}
    for chain, (kernel, operands) in zip(chains, values):
        op, first, channels = chain.linear
        a, b = np.ones(channels), np.zeros(channels)
        for mapped, vectors in zip(chain.maps, operands):
            scale, offset = mapped.affine(*[np.asarray(v, np.float64) for v in vectors])
            a, b = a * scale, b * scale + offset
        axes = _KERNEL_AXES[op.type]
        shape = [n if i in axes else 1 for i, n in enumerate(kernel.shape)]
        folded = (kernel.astype(np.float64) * a.reshape(shape)).astype(kernel.dtype)
        nodes[op.name].input[1] = _add_constant(result, nodes, op.name + "/folded_kernel", folded)
        for step, tensor in chain.steps[:-1]:
            skipped[step.name] = tensor
        step, tensor = chain.steps[-1]
        node = nodes[step.name]
        dtype = op.outputs[0].dtype
        bias = _add_constant(result, nodes, step.name + "/folded_bias", b.astype(dtype.as_numpy_dtype))
        node.op = "BiasAdd"
        del node.input[:]
        node.input.extend([_input(tensor), bias])
        node.attr.clear()
        node.attr["T"].type = dtype.as_datatype_enum
        node.attr["data_format"].s = b"NCHW" if first else b"NHWC"
    for node in result.node:
        for i, name in enumerate(node.input):
            place = name[:-2] if name.endswith(":0") else name
            while place in skipped:  # its input may be a step that is left out too
                place = _input(skipped[place])
                node.input[i] = place
    return result


def _input(tensor):
    return tensor.op.name if tensor.value_index == 0 else tensor.name


def _add_constant(graph_def, nodes, name, value):
    while name in nodes:
        name += "_"
    node = graph_def.node.add()
    node.name, node.op = name, "Const"
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    nodes[name] = node
    return name
