"""The CIFAR ResNet: its published sizes, and every number of it against float64 NumPy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import cifar_resnet
from tests.models.numpy_network import NumpyNetwork


def norm(inputs, name):
    return towers.sync_bn(inputs, momentum=0.9, epsilon=1e-5, name=name)


@pytest.mark.parametrize("n, millions, parameters", [(3, 0.27, 269722), (9, 0.85, 853018), (18, 1.7, 1727962)])
def test_networks_of_6n_plus_2_layers_have_their_published_sizes(n, millions, parameters):
    # He et al. (2016), table 6: 0.27M, 0.85M and 1.7M; to the last one by hand: a 3x3 kernel of C to C' has 9CC' weights,
    # a norm 2C', the last layer 64 * 10 + 10.
    by_hand = 9 * 3 * 16 + 2 * 16 + 650 + sum(
        9 * (before + (2 * n - 1) * width) * width + 2 * n * 2 * width for before, width in ((16, 16), (16, 32), (32, 64)))
    with tf.Graph().as_default():
        cifar_resnet.cifar_resnet(tf.zeros([2, 32, 32, 3]), n, norm, 10)
        kernels = [v for v in tf.trainable_variables() if v.op.name.endswith("kernel")]
        count = sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())
    assert len(kernels) == 6 * n + 2
    assert count == by_hand == parameters and round(count / 1e6, 2 if n < 18 else 1) == millions


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("size", [(16, 16), (13, 10)])
def test_logits_equal_a_float64_computation_of_the_same_weights(training, size):
    images = np.random.RandomState(0).normal(size=(3,) + size + (3,))
    with tf.Graph().as_default():
        build = towers.build(lambda x: cifar_resnet.cifar_resnet(x, 2, norm, 7, width=4),
                             towers.split_batch(tf.constant(images), 2), towers.tower_devices(2, "cpu"), training=training)
        rng = np.random.RandomState(1)
        values = {v.op.name: rng.uniform(0.5, 1.5, v.shape.as_list()) if "moving_variance" in v.op.name
                  else rng.normal(scale=0.4, size=v.shape.as_list()) for v in tf.global_variables()}
        with tf.Session(config=towers.session_config(towers.tower_devices(2, "cpu"))) as session:
            session.run([v.initializer for v in tf.global_variables()],
                        {v.initializer.inputs[1]: values[v.op.name] for v in tf.global_variables()})
            got = np.concatenate(session.run(build))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, by_numpy(NumpyNetwork(values, training), images), rtol=1e-9, atol=1e-9)


def by_numpy(network, images):
    x = network.conv_norm_relu(images, "resnet/stem/conv", "resnet/stem/bn")
    for stage in (1, 2, 3):
        for unit in (1, 2):
            scope = "resnet/stage%d/unit%d" % (stage, unit)
            stride = 2 if stage > 1 and unit == 1 else 1
            y = network.conv_norm_relu(x, scope + "/conv1", scope + "/bn1", stride=stride)
            y = network.norm(network.conv(y, scope + "/conv2"), scope + "/bn2")
            if stride == 2:  # every second row and column, between as many zero channels on both sides
                wide = np.zeros(y.shape)
                quarter = y.shape[-1] // 4
                wide[..., quarter:-quarter] = x[:, ::2, ::2]
                x = wide
            x = np.maximum(x + y, 0)
    return x.mean(axis=(1, 2)).dot(network.weights["logits/kernel"]) + network.weights["logits/bias"]


def test_a_network_of_no_units_is_refused():
    with pytest.raises(ValueError, match="n is 0"):
        cifar_resnet.cifar_resnet(tf.zeros([1, 32, 32, 3]), 0, norm, 10)
