"""Parameters and multiply-adds (MACs) of every layer of a graph, from its ops and their static shapes.

    convolution    kh · kw · (C / groups) · C' · N · H' · W', H' x W' its output (for a transposed one: its input)
    depthwise      kh · kw · C · multiplier · N · H' · W'
    matrix product rows · inner · columns, for each matrix of a batch

One MAC is two floating-point operations. Nothing else is counted: batch normalisation, activations, pooling by ops of
its own and additions are a few operations an element, where a convolution has hundreds.

A dilated convolution that TensorFlow computes on a rearranged input (space to batch) is counted by the output it
gives, not by the padding it computes besides. The backward pass costs as much as the forward pass for each operand that
has a gradient: twice for most layers, once for the first, as the image has none, and once for a resize.
"""

import collections

import tensorflow.compat.v1 as tf

CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput")
WITHOUT_WEIGHTS = " (matmul)"  # behind the scope, for products of activations and constants: resizes, adaptive pooling
PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")

Cost = collections.namedtuple("Cost", "name kind output parameters state macs backward")
Cost.__doc__ = """A layer: name, kind ('conv 3x3', 'dense', 'batch norm', 'matmul', ...), shape of its output, numbers of
trainable and of other parameters, and the MACs of its forward and of its backward pass."""


def layer_costs(graph, scope):
    """The layers that a tower made, in the order in which it made them.

    Args:
        graph: the graph, without its backward pass.
        scope: the name scope of the tower's ops, such as 'tower_0/'.

    Returns:
        A list of `Cost`; a matrix product without weights (a resize) has a line of its own.
    Raises:
        ValueError: a shape that is not known before the graph runs.
    """
    variables = {v.op.name: v for v in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)}
    trainable = {v.op.name for v in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)}
    of_layer = collections.OrderedDict()
    for name, variable in variables.items():
        if "/" in name:  # the global step is no layer's
            of_layer.setdefault(name.rsplit("/", 1)[0], []).append(variable)
    learned = _dependents(graph, trainable)
    costs = collections.OrderedDict((name, _of_variables(name, found, trainable)) for name, found in of_layer.items())
    for op in graph.get_operations():
        if not op.name.startswith(scope) or op.type not in CONVOLUTIONS + PRODUCTS:
            continue
        kernel = _weights(op, variables)
        layer = kernel.rsplit("/", 1)[0] if kernel else op.name[len(scope):].rsplit("/", 1)[0]
        kind, output, macs = _work(op)
        gradients = sum(op.inputs[i].op in learned for i in _operands(op))
        if not kernel:
            layer, kind = layer + WITHOUT_WEIGHTS, "matmul"
        before = costs.get(layer, Cost(layer, kind, output, 0, 0, 0, 0))
        costs[layer] = before._replace(
            kind=kind, output=output, macs=before.macs + macs, backward=before.backward + macs * gradients)
    return list(costs.values())


def grouped(costs, depth):
    """Costs added up by the first `depth` parts of their names."""
    groups = collections.OrderedDict()
    for cost in costs:
        name = "/".join(cost.name.replace(WITHOUT_WEIGHTS, "").split("/")[:depth])
        before = groups.get(name, Cost(name, "", cost.output, 0, 0, 0, 0))
        groups[name] = Cost(name, "", cost.output or before.output, *(a + b for a, b in zip(before[3:], cost[3:])))
    return list(groups.values())


def total(costs):
    """One `Cost` with the sums."""
    return Cost("total", "", None, *(sum(cost[i] for cost in costs) for i in range(3, 7)))


def _of_variables(name, variables, trainable):
    counts = [0, 0]
    for variable in variables:
        counts[variable.op.name not in trainable] += variable.shape.num_elements()
    ends = {variable.op.name.rsplit("/", 1)[1] for variable in variables}
    return Cost(name, "batch norm" if "moving_mean" in ends else "", None, counts[0], counts[1], 0, 0)


def _work(op):
    """(kind, shape of the output, MACs) of a convolution or a matrix product."""
    if op.type in PRODUCTS:
        transposed = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        inner = _known(op, op.inputs[0])[-2 if transposed else -1]
        output = _known(op, op.outputs[0])
        return "dense", output, _product(output) * inner
    kernel = _known(op, op.inputs[1])
    result = _unarranged(op.outputs[0])
    output = _known(op, result)
    counted = op.inputs[2] if op.type == "Conv2DBackpropInput" else result
    shape = _known(op, counted)
    places = _product(shape) // shape[1 if op.get_attr("data_format") == b"NCHW" else -1]
    kind = {"Conv2D": "conv", "DepthwiseConv2dNative": "depthwise", "Conv2DBackpropInput": "transposed"}[op.type]
    return "{} {}x{}".format(kind, *kernel[:2]), output, _product(kernel) * places


def _unarranged(tensor):
    """What a convolution's output becomes: its inverse rearrangement, where there is one."""
    back = [op for op in tensor.consumers() if op.type == "BatchToSpaceND"]
    return back[0].outputs[0] if back else tensor


def _operands(op):
    return (1, 2) if op.type == "Conv2DBackpropInput" else (0, 1)


def _dependents(graph, trainable):
    """The ops whose results depend on a trainable variable; ops stand behind what they read."""
    found = set()
    for op in graph.get_operations():
        if op.type == "VarHandleOp":
            depends = op.name in trainable
        else:
            depends = op.type != "StopGradient" and any(tensor.op in found for tensor in op.inputs)
        if depends:
            found.add(op)
    return found


def _weights(op, variables):
    for operand in _operands(op):
        name = _weights_name(op.inputs[operand])
        if name in variables:
            return name
    return None


def _weights_name(tensor):
    """The variable that a tensor is the value of."""
    op = tensor.op
    while op.type in ("Identity", "Cast", "ReadVariableOp", "Reshape") and op.inputs:
        op = op.inputs[0].op
    return op.name if op.type == "VarHandleOp" else None


def _product(shape):
    result = 1
    for size in shape:
        result *= size
    return result


def _known(op, tensor):
    if not tensor.shape.is_fully_defined():
        raise ValueError("{} has a tensor of shape {}: costs need every size to be known".format(op.name, tensor.shape))
    return tensor.shape.as_list()
