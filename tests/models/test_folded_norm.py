"""Batch norm folded while the graph is built against the norm layer that it stands for."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from models import folded_norm, inference, pspnet, resnet
from tests.models.test_pspnet import config


def names_and_values(graph, session, seed=0):
    """Values for all variables of a graph, by name: such as training leaves, no mean 0 and no variance 1."""
    rng = np.random.RandomState(seed)
    values = {}
    for variable in sorted(tf.global_variables(), key=lambda v: v.op.name):
        shape, kind = variable.shape.as_list(), variable.op.name.split("/")[-1]
        draw = {"gamma": rng.uniform(.5, 1.5, shape), "moving_variance": rng.uniform(.2, 3, shape)}
        value = draw[kind] if kind in draw else rng.normal(scale=.3, size=shape)
        values[variable.op.name] = value
        variable.load(value, session)
    return values


def bottlenecks(x, model, norm):
    return resnet.resnet(x, (1, 1, 1, 1), norm or pspnet.normalisation(model), width=4)["stage4"]


def whole(x, model, norm):
    return pspnet.pspnet(x, model, 5, norm=norm)["logits"]


def outputs(network, images, model, norm):
    with tf.Graph().as_default() as graph:
        found = towers.build(lambda x: network(x, model, norm), [(tf.constant(images),)], towers.tower_devices(1, "cpu"))[0]
        with tf.Session() as session:
            values = names_and_values(graph, session)
            ops = [op.type for op in graph.get_operations()]
            return session.run(found), values, ops


@pytest.mark.parametrize("network", [whole, bottlenecks])
def test_the_folded_network_is_the_network(network):
    images = np.random.RandomState(1).normal(size=(2, 49, 57, 3))
    model = config(backbone="thin_resnet", width=4, pyramid_channels=4, head_channels=6, aux_channels=0)
    want, variables, ops = outputs(network, images, model, None)
    got, folded_variables, folded_ops = outputs(network, images, model, folded_norm.folded_normalisation(model))
    assert {name: v.shape for name, v in variables.items()} == {name: v.shape for name, v in folded_variables.items()}
    np.testing.assert_allclose(got, want, atol=1e-10 * np.abs(want).max())
    assert "BiasAdd" in folded_ops and not any("BatchNorm" in op for op in folded_ops)


def test_weights_loaded_later_are_used():
    images = np.random.RandomState(1).normal(size=(1, 8, 8, 3))
    x = tf.constant(images)
    kernel = tf.get_variable("kernel", [3, 3, 3, 2], tf.float64)
    y = folded_norm.folded_batch_norm(tf.nn.conv2d(x, kernel, 2, "SAME"), "bn", 0.25)
    with tf.Session() as session:
        for seed in range(2):
            values = names_and_values(tf.get_default_graph(), session, seed)
            plain = session.run(tf.nn.conv2d(x, kernel, 2, "SAME"))
            want = (plain - values["bn/moving_mean"]) * values["bn/gamma"] / np.sqrt(
                values["bn/moving_variance"] + 0.25) + values["bn/beta"]
            np.testing.assert_allclose(session.run(y), want, rtol=1e-10, atol=1e-12)


def test_a_norm_that_follows_no_convolution_normalises():
    x = tf.constant(np.random.RandomState(1).normal(size=(2, 3, 4, 5)))
    y = folded_norm.folded_batch_norm(tf.nn.relu(x), "bn", 0.25)
    with tf.Session() as session:
        values = names_and_values(tf.get_default_graph(), session)
        want = (np.maximum(session.run(x), 0) - values["bn/moving_mean"]) * values["bn/gamma"] / np.sqrt(
            values["bn/moving_variance"] + 0.25) + values["bn/beta"]
        np.testing.assert_allclose(session.run(y), want, rtol=1e-10, atol=1e-12)
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)


def test_windows_of_the_folded_network_on_two_towers_are_those_of_the_network():
    model = config(backbone="thin_resnet", width=4, pyramid_channels=4, head_channels=6, aux_channels=0, norm_epsilon=1e-2)
    image = np.random.RandomState(3).randint(0, 256, (60, 90, 3)).astype(np.uint8)
    results = []
    for norm in (None, folded_norm.folded_normalisation(model)):
        with tf.Graph().as_default() as graph:
            devices = towers.tower_devices(2, "cpu")
            predictor = inference.SlidingWindowPredictor(
                functools.partial(whole, model=model, norm=norm), 5, devices, (49, 49), (9., 8., 7.),
                (50., 60., 70.), flip=True)
            with tf.Session(config=towers.session_config(devices)) as session:
                small = names_and_values(graph, session)
                for variable in tf.global_variables():  # so that no class is certain
                    if variable.op.name.startswith("pspnet/head/logits"):
                        variable.load(1e-3 * small[variable.op.name], session)
                results.append(predictor.predict(session, image))
    assert np.ptp(results[0], axis=-1).max() > .05
    np.testing.assert_allclose(results[1], results[0], atol=1e-5)
