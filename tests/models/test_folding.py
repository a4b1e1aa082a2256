"""Folding: the same network in float64 to rounding, no batch norm left, and whatever cannot be folded left alone."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import folding, pspnet
from tests.models.numpy_network import NumpyNetwork
from tests.models.test_pspnet import CLASSES, build, config, photographs, small_resnet50  # noqa: F401
from tests.models.test_resnet import random_weights


def folded(session, output):
    return folding.fold(folding.freeze(session, [output.op.name]), [output.op.name])


def evaluate(graph_def, output, images):
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run(graph.get_tensor_by_name(output), {"images:0": images})


def kinds(graph_def):
    return {node.op for node in graph_def.node}


@pytest.mark.parametrize(
    "backbone, kind, size, known, align_corners, pyramid, norm",
    [
        ("thin_resnet", "thin", (49, 57), True, True, "adaptive", "sync"),
        ("thin_resnet", "thin", (49, 57), False, True, "adaptive", "plain"),
        ("resnet50", "deep", (40, 56), True, False, "adaptive", "plain"),
        ("resnet50", "deep", (40, 56), False, False, "adaptive", "sync"),
        ("resnet50", "7x7", (48, 96), True, False, "average", "sync"),
    ],
)
def test_a_folded_pspnet_is_the_numpy_network_in_float64(
    small_resnet50, backbone, kind, size, known, align_corners, pyramid, norm  # noqa: F811
):
    images = photographs(size)
    inputs = tf.placeholder(tf.float64, [None] + list(size if known else (None, None)) + [3], name="images")
    logits = build(inputs, backbone=backbone, stem=kind, align_corners=align_corners, pyramid=pyramid, norm=norm)[0]["logits"]
    norms = [v for v in tf.global_variables() if v.op.name.endswith("moving_mean")]
    with tf.Session() as session:
        weights = random_weights(session)
        result = folded(session, logits)
    assert (result.num_folded, result.num_left) == (len(norms), 0)
    assert not kinds(result.graph_def) & {"Rsqrt", "VariableV2", "VarHandleOp", "ReadVariableOp"}
    expected = NumpyNetwork(weights).pspnet(images, kind, (1, 2, 3, 6), align_corners)[0]
    assert expected.shape[-1] == CLASSES
    np.testing.assert_allclose(evaluate(result.graph_def, logits.name, images), expected, rtol=0, atol=1e-10)


def test_a_folded_pspnet_in_float32_agrees_to_1e_4_and_has_fewer_ops():
    images = photographs((65, 49))
    inputs = tf.placeholder(tf.float32, [None, 65, 49, 3], name="images")
    logits = pspnet.pspnet(inputs, config(width=8), CLASSES)["logits"]
    with tf.Session() as session:
        weights = random_weights(session)
        whole, result = folding.freeze(session, [logits.op.name]), folded(session, logits)
    assert "FusedBatchNormV3" in kinds(whole) and "FusedBatchNormV3" not in kinds(result.graph_def)
    assert len(result.graph_def.node) < len(whole.node) and result.graph_def.ByteSize() < whole.ByteSize()
    expected = NumpyNetwork(weights).pspnet(images, "thin", (1, 2, 3, 6), True)[0]
    np.testing.assert_allclose(evaluate(result.graph_def, logits.name, images), expected, rtol=0, atol=1e-4)
    assert not any("_gradient_op_type" in node.attr for node in result.graph_def.node)


def bn(x, **options):
    return towers.layers.batch_normalization(x, **options)


def conv(x, **options):
    return towers.layers.conv2d(x, 4, 3, padding="same", **options)


def shared(x):
    """One convolution that two norms read."""
    y = conv(x)
    return bn(y) + bn(tf.nn.relu(y))


def one_kernel(x):
    """One kernel used twice, each time before another norm: both are folded, with a kernel each."""
    with tf.variable_scope("twice"):
        y = bn(conv(x, name="same"))
    with tf.variable_scope("twice", reuse=True):
        z = conv(tf.reverse(x, [1]), name="same")
    return y + bn(z, name="another")


NETWORKS = {  # a network, how many norms fold, how many stay
    "a bias before": (lambda x: bn(conv(x, bias_initializer=tf.ones_initializer())), 1, 0),
    "no gamma or beta": (lambda x: bn(conv(x), center=False, scale=False), 1, 0),
    "two in a row": (lambda x: tf.nn.relu(bn(bn(conv(x)))), 1, 0),
    "a strided transposed convolution": (lambda x: bn(towers.layers.conv2d_transpose(x, 5, 3, 2)), 1, 0),
    "a separable convolution": (lambda x: bn(towers.layers.separable_conv2d(x, 4, 3)), 1, 0),
    "a depthwise convolution": (lambda x: bn(tf.nn.depthwise_conv2d(
        x, tf.get_variable("kernel", [3, 3, 3, 2], x.dtype), [1, 1, 1, 1], "SAME")), 1, 0),
    "a dilated convolution": (lambda x: bn(conv(x, dilation_rate=(2, 3))), 1, 0),
    "a dense layer": (lambda x: bn(towers.layers.dense(towers.layers.flatten(x), 7)), 1, 0),
    "arithmetic": (lambda x: 3. - (conv(x) * tf.constant([1., 2., 3., 4.], x.dtype) - 2.) / 4., 1, 0),
    "one kernel twice": (one_kernel, 2, 0),
    "a norm before the convolution": (lambda x: conv(tf.nn.relu(bn(x))), 0, 1),
    "a norm behind a sum": (lambda x: bn(conv(x) + x[..., :1]), 0, 1),
    "two readers": (shared, 0, 2),
    "a map that is not by channel": (lambda x: conv(x) * tf.reshape(tf.range(8, dtype=x.dtype), [1, 8, 1, 1]), 0, 0),
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("case", sorted(NETWORKS))
def test_what_can_be_folded_is_and_nothing_changes(case, dtype):
    network, num_folded, num_left = NETWORKS[case]
    images = np.random.RandomState(3).randn(2, 8, 9, 3)
    inputs = tf.placeholder(dtype, [None, 8, 9, 3], name="images")
    output = tf.identity(network(inputs), name="output")
    with tf.Session() as session:
        random_weights(session)
        expected = session.run(output, {inputs: images})
        result = folded(session, output)
    if dtype == tf.float32:  # in float64 a norm that stays is arithmetic and not counted
        assert (result.num_folded, result.num_left) == (num_folded, num_left)
    else:
        assert result.num_folded == num_folded
    np.testing.assert_allclose(
        evaluate(result.graph_def, "output:0", images), expected, rtol=0, atol=1e-5 if dtype == tf.float32 else 1e-12)


def test_a_large_mean_and_a_small_deviation_survive():
    inputs = tf.placeholder(tf.float32, [None, 8, 9, 3], name="images")
    output = bn(conv(inputs, name="conv"), name="bn", epsilon=1e-5)
    images = np.random.RandomState(3).randn(2, 8, 9, 3)
    with tf.Session() as session:
        weights = random_weights(session)
        weights["bn/moving_mean"] = np.full(4, 100.)
        weights["bn/moving_variance"] = np.full(4, 1e-4)
        weights["conv/bias"] = np.full(4, 100.)
        for variable in tf.global_variables():
            variable.load(weights[variable.op.name], session)
        result = folded(session, output)
    network = NumpyNetwork(weights)
    expected = network.norm(network.conv(images, "conv", bias=True), "bn")
    assert np.abs(expected).max() > 100  # divided by a deviation of 0.01
    np.testing.assert_allclose(evaluate(result.graph_def, output.name, images), expected, rtol=1e-5, atol=1e-3)


def test_an_output_in_the_middle_of_a_chain_stays_what_it_was():
    inputs = tf.placeholder(tf.float32, [None, 8, 9, 3], name="images")
    middle = conv(inputs)
    last = bn(middle)
    images = np.random.RandomState(3).randn(2, 8, 9, 3)
    outputs = [middle.op.name, last.op.name]
    with tf.Session() as session:
        random_weights(session)
        expected = session.run([middle, last], {inputs: images})
        result = folding.fold(folding.freeze(session, outputs), outputs)
    assert (result.num_folded, result.num_left) == (0, 1)
    for tensor, value in zip((middle, last), expected):
        np.testing.assert_allclose(evaluate(result.graph_def, tensor.name, images), value, rtol=0, atol=1e-6)


def test_channels_first_are_folded_along_their_own_axis():
    images = np.random.RandomState(3).randn(2, 8, 9, 3)
    inputs = tf.placeholder(tf.float32, [None, 8, 9, 3], name="images")
    first = conv(tf.transpose(inputs, [0, 3, 1, 2]), data_format="channels_first")
    output = bn(first, axis=1)
    with tf.Session() as session:
        random_weights(session)
        try:
            expected = session.run(output, {inputs: images})
        except tf.errors.OpError:
            pytest.skip("this TensorFlow has no convolution with channels first on the CPU")
        result = folded(session, output)
    assert result.num_folded == 1 and not kinds(result.graph_def) & {"Mul", "Sub", "Rsqrt"}
    np.testing.assert_allclose(evaluate(result.graph_def, output.name, images), expected, rtol=0, atol=1e-5)
