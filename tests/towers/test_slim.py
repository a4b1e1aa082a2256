"""slim's batch norm over all towers, in slim's own ResNet where slim can be installed."""

import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

PARAMS = {"decay": .9, "epsilon": 1e-5, "scale": True}


@pytest.fixture(scope="module")
def slim():
    """slim, its resnet_v1 and resnet_utils: of tf.contrib on 1.15; of tf_slim, with the alias of tf_keras, on 2.x."""
    if tf.__version__ < "2":
        from tensorflow.contrib import slim
        from tensorflow.contrib.slim.python.slim.nets import resnet_utils, resnet_v1
        return slim, resnet_v1, resnet_utils
    tf_keras = pytest.importorskip("tf_keras", reason="slim's layers on TensorFlow 2 are those of tf_keras")
    pytest.importorskip("tf_slim", reason="slim is a package of its own on TensorFlow 2")
    from tf_keras.src import legacy_tf_layers
    sys.modules.setdefault("tf_keras.legacy_tf_layers", legacy_tf_layers)
    tf_keras.legacy_tf_layers = legacy_tf_layers
    import tf_slim
    from tf_slim.nets import resnet_utils, resnet_v1
    return tf_slim, resnet_v1, resnet_utils


def resnet_losses(slim, norm, num_towers, steps=4):
    """Losses and variable names of an unmodified small slim ResNet."""
    slim, resnet_v1, resnet_utils = slim

    def model(images):
        blocks = [resnet_v1.resnet_v1_block("block1", 4, 2, 2), resnet_v1.resnet_v1_block("block2", 8, 2, 1)]
        with slim.arg_scope(resnet_utils.resnet_arg_scope()):
            with slim.arg_scope([slim.conv2d], normalizer_fn=norm, normalizer_params=PARAMS):
                net, _ = resnet_v1.resnet_v1(images, blocks, num_classes=5, global_pool=True)
        return tf.reduce_mean(tf.square(net - 1.)) + tf.losses.get_regularization_loss()

    with tf.Graph().as_default():
        tf.set_random_seed(1)
        images = tf.constant(np.random.RandomState(0).randn(4, 33, 33, 3), tf.float32)
        step = towers.build_train_step(model, towers.split_batch(images, num_towers),
                                       tf.train.MomentumOptimizer(.01, .9), oracles.CPUS[:num_towers])
        with oracles.session() as session:
            oracles.initialize(session)
            losses = [session.run([step.train_op, step.loss])[1] for _ in range(steps)]
        names = [sorted(v.op.name for v in tf.get_collection(key))
                 for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES)]
        return losses, names


def test_an_unmodified_slim_resnet_trains_as_on_one_device_with_slims_own_norm(slim):
    expected, names = resnet_losses(slim, slim[0].batch_norm, 1)
    for num_towers in (1, 2, 4):
        losses, its_names = resnet_losses(slim, towers.slim.batch_norm, num_towers)
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
        assert its_names == names


def test_slims_own_norm_in_a_model_is_updated_once(slim):
    slim = slim[0]
    x = np.random.RandomState(0).randn(6, 2, 2, 3) + 2
    with tf.Graph().as_default():
        step = towers.build_train_step(
            lambda part: tf.reduce_mean(tf.square(slim.batch_norm(part, decay=.9, fused=True, scope="own") - 1.)),
            towers.split_batch(tf.constant(x, tf.float32), 3), tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:3])
        assert len(step.update_ops) == 2
        with oracles.session() as session:
            oracles.initialize(session)
            session.run(step.train_op)
            state = {v.op.name: session.run(v) for v in tf.global_variables()}
    np.testing.assert_allclose(state["own/moving_mean"], .1 * x[:2].mean((0, 1, 2)), rtol=1e-5)


def test_arg_scopes_reach_it(slim):
    slim = slim[0]
    with tf.Graph().as_default():
        with slim.arg_scope([towers.slim.batch_norm], scale=True, activation_fn=tf.nn.relu):
            y = towers.slim.batch_norm(tf.constant([[-3., 1.]]))
        assert [v.op.name for v in tf.trainable_variables()] == ["BatchNorm/gamma", "BatchNorm/beta"]
        assert oracles.evaluate(y)[0, 0] == 0


def test_updates_in_place_and_collections_of_ones_own():
    with tf.Graph().as_default():
        x = tf.constant(np.random.RandomState(0).randn(6, 3) + 2, tf.float32)

        def model(part):
            in_place = towers.slim.batch_norm(part, decay=.9, updates_collections=None, scope="a")
            elsewhere = towers.slim.batch_norm(part, decay=.9, updates_collections="mine", scope="b",
                                               outputs_collections="outputs", variables_collections={"beta": ["betas"]})
            return in_place + elsewhere

        outputs = towers.build(model, towers.split_batch(x, 2), oracles.CPUS[:2], training=True)
        assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert len(tf.get_collection("mine")) == 2 and len(tf.get_collection("outputs")) == 2
        assert [v.op.name for v in tf.get_collection("betas")] == ["b/beta"]
        with oracles.session() as session:
            oracles.initialize(session)
            value = session.run(outputs + [x])[2]
            state = {v.op.name: session.run(v) for v in tf.global_variables()}
        np.testing.assert_allclose(state["a/moving_mean"], .1 * value.mean(0), rtol=1e-5)
        assert not state["b/moving_mean"].any()


@pytest.mark.parametrize("argument", [
    {"renorm": True}, {"zero_debias_moving_mean": True}, {"batch_weights": [1.]}, {"data_format": "NDHWC"}])
def test_what_is_not_supported_is_refused(argument):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=list(argument)[0]):
        towers.slim.batch_norm(tf.ones([2, 3]), **argument)
