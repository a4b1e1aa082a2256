"""Backbones against a float64 NumPy forward pass, published parameter counts, and their initial values."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import resnet
from tests.models.numpy_network import NumpyNetwork


def plain_norm(inputs, name):
    return towers.layers.batch_normalization(inputs, momentum=0.9, epsilon=1e-5, name=name)


def build(images, kind):
    if kind == "thin":
        return resnet.thin_resnet(images, plain_norm, width=3, units=(1, 2, 1, 2))
    return resnet.resnet(images, (1, 2, 1, 2), plain_norm, kind, width=3)


def load(session, values):
    """Sets variables (op name to array) in one run; `Variable.load` is a run each, which plans the graph."""
    variables = [v for v in tf.global_variables() if v.op.name in values]
    session.run(
        [v.initializer for v in variables], {v.initializer.inputs[1]: values[v.op.name] for v in variables}
    )


def random_weights(session, seed=0):
    """Gives every variable, moving statistics included, a value of a size that keeps activations near 1."""
    rng, weights = np.random.RandomState(seed), {}
    for variable in tf.global_variables():
        name, shape = variable.op.name, variable.shape.as_list()
        if name.endswith("kernel"):
            value = rng.randn(*shape) * np.sqrt(2 / np.prod(shape[:3]))
        elif name.endswith(("gamma", "moving_variance")):
            value = rng.uniform(0.5, 1.5, shape)
        else:
            value = rng.randn(*shape) * 0.3
        weights[name] = value
    load(session, weights)
    return weights


@pytest.mark.parametrize("size", [(33, 41), (24, 32), (30, 37)])
@pytest.mark.parametrize("kind", ["deep", "7x7", "thin"])
def test_every_stage_equals_numpy_at_any_size(kind, size):
    images = np.random.RandomState(1).randn(2, size[0], size[1], 3)
    stages = build(tf.constant(images), kind)
    with tf.Session() as session:
        weights = random_weights(session)
        results = session.run(stages)
    expected = NumpyNetwork(weights).stages(images, kind)
    for number, reference in enumerate(expected, start=1):
        np.testing.assert_allclose(results["stage%d" % number], reference, rtol=0, atol=1e-9)
        assert reference.std() > 0.1  # the comparison is of something


@pytest.mark.parametrize("kind", ["deep", "7x7", "thin"])
@pytest.mark.parametrize("size, features", [(73, 10), (72, 9)])
def test_features_are_an_eighth_and_sizes_known(kind, size, features):
    stages = build(tf.zeros([1, size, size, 3]), kind)
    quarter = (size + 3) // 4
    assert [stages["stage%d" % k].shape.as_list()[1] for k in (1, 2, 3, 4)] == [quarter] + [features] * 3


def test_sizes_may_be_unknown_until_the_graph_runs():
    images = tf.placeholder(tf.float64, [None, None, None, 3])
    value = np.random.RandomState(1).randn(1, 30, 41, 3)
    stages = build(images, "deep")
    with tf.Session() as session:
        weights = random_weights(session)
        result = session.run(stages["stage4"], {images: value})
    np.testing.assert_allclose(result, NumpyNetwork(weights).stages(value, "deep")[3], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "name, parameters, norms", [("resnet50", 25557032 - 2049000, 53), ("resnet101", 44549160 - 2049000, 104)]
)
def test_parameters_are_as_many_as_torchvision_publishes(name, parameters, norms):
    resnet.resnet(tf.zeros([1, 33, 33, 3]), name, plain_norm, "7x7")
    assert sum(v.shape.num_elements() for v in tf.trainable_variables()) == parameters
    assert sum(v.op.name.endswith("gamma") for v in tf.trainable_variables()) == norms


def test_deep_stem_widens_the_first_stage_to_128():
    resnet.resnet(tf.zeros([1, 33, 33, 3]), "resnet50", plain_norm, "deep")
    shapes = {v.op.name: tuple(v.shape.as_list()) for v in tf.trainable_variables()}
    assert [shapes["resnet/stem/conv%d/kernel" % k] for k in (1, 2, 3)] == [
        (3, 3, 3, 64),
        (3, 3, 64, 64),
        (3, 3, 64, 128),
    ]
    assert shapes["resnet/stage1/unit1/shortcut/kernel"] == (1, 1, 128, 256)
    assert shapes["resnet/stage4/unit3/conv2/kernel"] == (3, 3, 512, 512)


def test_variable_names_are_those_that_are_documented():
    resnet.resnet(tf.zeros([1, 33, 33, 3]), (1, 1, 1, 2), plain_norm, "7x7", width=2)
    norm = ["beta", "gamma", "moving_mean", "moving_variance"]
    expected = ["resnet/stem/conv1/kernel"] + ["resnet/stem/bn1/" + n for n in norm]
    for unit in ("stage1/unit1", "stage2/unit1", "stage3/unit1", "stage4/unit1", "stage4/unit2"):
        layers = [("conv%d" % k, "bn%d" % k) for k in (1, 2, 3)]
        if unit.endswith("unit1"):
            layers.append(("shortcut", "shortcut_bn"))
        for conv, bn in layers:
            expected += ["resnet/{}/{}/kernel".format(unit, conv)] + [
                "resnet/{}/{}/{}".format(unit, bn, n) for n in norm
            ]
    assert sorted(v.op.name for v in tf.global_variables()) == sorted(expected)


def test_kernels_start_normal_with_kaiming_fan_out_variance():
    tf.set_random_seed(0)
    resnet.resnet(tf.zeros([1, 33, 33, 3]), (1, 1, 1, 1), plain_norm, "deep", width=32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            value = session.run(variable)
            if variable.op.name.endswith("kernel") and value.size > 5000:
                std = np.sqrt(2 / (value.shape[0] * value.shape[1] * value.shape[3]))
                assert value.std() == pytest.approx(std, rel=0.05)
                assert abs(value).max() > 2.5 * std  # not truncated
            elif variable.op.name.endswith("gamma"):
                assert (value == 1).all()


def test_gradients_reach_every_variable_of_a_dilated_network_on_the_cpu():
    stages = build(tf.constant(np.random.RandomState(0).randn(1, 33, 33, 3)), "deep")
    gradients = tf.gradients(tf.reduce_sum(stages["stage4"] ** 2), tf.trainable_variables())
    with tf.Session() as session:
        random_weights(session)
        for value in session.run(gradients):
            assert np.isfinite(value).all() and value.any()


def test_unknown_names_are_refused_with_the_choices():
    with pytest.raises(ValueError, match="'resnet18' is unknown.*'resnet101', 'resnet50'"):
        resnet.resnet(tf.zeros([1, 33, 33, 3]), "resnet18", plain_norm)
    with pytest.raises(ValueError, match="stem 'wide' is unknown.*'deep', '7x7'"):
        resnet.resnet(tf.zeros([1, 33, 33, 3]), "resnet50", plain_norm, "wide")
