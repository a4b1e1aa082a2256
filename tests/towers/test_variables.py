"""Variables are one set for all towers: one name, one initial value, one creator."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS
GLOBAL = tf.GraphKeys.GLOBAL_VARIABLES


def build(model, num_towers, **kwargs):
    return towers.build(model, [tf.ones([2, 4])] * num_towers, CPUS[:num_towers], **kwargs)


def network(x):
    x = towers.layers.dense(x, 3, kernel_regularizer=lambda w: .1 * tf.reduce_sum(tf.square(w)))
    x = towers.sync_bn(x)
    with tf.variable_scope("block"):
        x = towers.layers.dense(x, 3, name="inner")
        x = towers.layers.batch_normalization(x)
    x = towers.sync_bn(x, name="last", momentum=None)
    return tf.reduce_mean(tf.square(x * tf.get_variable("scale", [3])))


def collections():
    keys = [GLOBAL, tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.MODEL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES]
    return {key: [(v.op.name, v.shape.as_list(), v.dtype.base_dtype) for v in tf.get_collection(key)] for key in keys}


def test_collections_hold_what_one_device_would_for_any_number_of_towers():
    network(tf.ones([2, 4]))
    expected = collections()
    assert len(expected[GLOBAL]) == 18
    for num_towers in (1, 2, 4):
        tf.reset_default_graph()
        build(network, num_towers, training=True)
        assert collections() == expected
        assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1


def initial_values(num_towers, model, seed=3):
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        if num_towers == 0:
            model(tf.ones([2, 4]))
        else:
            build(model, num_towers, training=True)
        return oracles.evaluate({v.op.name: v for v in tf.global_variables()})


def test_initial_values_under_a_graph_seed_do_not_depend_on_the_number_of_towers():
    def model(x):
        w = tf.get_variable("uniform", [5], initializer=tf.random_uniform_initializer())
        t = tf.get_variable("tensor", initializer=tf.random_normal([5]))
        o = tf.get_variable("orthogonal", [5, 5], initializer=tf.orthogonal_initializer())
        return network(x) + tf.reduce_sum(w + t) + tf.reduce_sum(o)

    one = initial_values(1, model)
    for num_towers in (2, 3):
        for name, value in initial_values(num_towers, model).items():
            np.testing.assert_array_equal(value, one[name], err_msg=name)
    other = initial_values(1, model, seed=4)
    random = [name for name in one if one[name].size > 1 and one[name].std() > 0]
    assert {"uniform", "tensor", "orthogonal", "dense/kernel", "scale"} <= set(random)
    for name in random:
        assert (one[name] != other[name]).any(), name
    drawn = [tuple(one[name].ravel()[:5]) for name in random]
    assert len(set(drawn)) == len(drawn), "two variables begin alike"


def test_a_seed_given_to_an_initializer_is_kept():
    def model(x):
        return tf.get_variable("w", [6], initializer=tf.glorot_uniform_initializer(seed=11)) * 1.

    expected = initial_values(0, model)["w"]
    for num_towers in (1, 3):
        np.testing.assert_array_equal(initial_values(num_towers, model)["w"], expected)


@pytest.mark.parametrize("make,name", [
    (lambda: tf.get_variable("extra", [2]), "extra"), (lambda: tf.Variable(1., name="extra"), "extra"),
    (lambda: towers.layers.dense(tf.ones([1, 2]), 2, name="extra"), "extra/kernel"),
    (lambda: towers.layers.dense(tf.ones([1, 2]), 2), "dense/kernel")])
@pytest.mark.parametrize("tower", [1, 2])
def test_a_tower_above_0_that_creates_a_variable_is_an_error_naming_it(make, name, tower):
    def model(x):
        if towers.current_tower().index == tower:
            make()
        return towers.all_sum(x)

    with pytest.raises(towers.TowerError, match="tower %d.*'%s'.*tower 0" % (tower, name)):
        oracles.within(60, lambda: build(model, 3))


def test_variables_made_without_a_variable_scope_have_no_tower_prefix():
    def model(x):
        with tf.name_scope("part"):
            return tf.Variable(tf.ones([4]), name="w") * x + tf.Variable(2.)

    with tf.name_scope("outer"):
        build(model, 1)
    assert [v.op.name for v in tf.global_variables()] == ["outer/part/w", "outer/part/Variable"]


def test_local_variables_are_each_towers_own():
    def model(x):
        return tf.metrics.mean(x * (towers.current_tower().index + 1.))

    results = build(model, 3)
    assert len(tf.local_variables()) == 6
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run([update for _, update in results])
        assert sess.run([value for value, _ in results]) == [1., 2., 3.]


def test_local_variables_by_get_variable_are_each_towers_own():
    def model(x):
        count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), trainable=False,
                                collections=[tf.GraphKeys.LOCAL_VARIABLES])
        return tf.assign_add(count, towers.current_tower().index + 1)

    assert oracles.evaluate(build(model, 3)) == [1, 2, 3]


def test_get_variable_returns_the_variable_itself():
    def model(x):
        w = tf.get_variable("w", [4], initializer=tf.ones_initializer())
        assert hasattr(w, "handle") and hasattr(w, "assign_add") and not isinstance(w, tf.Tensor)
        return w

    results = build(model, 3)
    assert all(w is results[0] for w in results) and tf.global_variables() == [results[0]]


@pytest.mark.parametrize("value", [3, 2.5, np.arange(3.), np.arange(3, dtype=np.int64), True])
def test_a_variable_made_from_a_value_keeps_its_dtype_on_every_tower(value):
    results = build(lambda x: tf.get_variable("w", initializer=value), 2)
    assert results[0] is results[1] and results[0].dtype.base_dtype == tf.convert_to_tensor(value).dtype


def test_a_layer_used_twice_shares_its_variables_and_adds_both_gradients():
    x = np.random.RandomState(0).randn(4, 3)

    def model(inputs):
        y = towers.layers.dense(inputs, 3, name="shared", use_bias=False,
                                kernel_initializer=tf.constant_initializer(np.eye(3)))
        y = tf.tanh(y)
        return tf.reduce_sum(towers.layers.dense(y, 3, name="shared", use_bias=False, reuse=True)) / 2.

    step = towers.build_train_step(model, towers.split_batch(tf.constant(x, tf.float32), 2),
                                   tf.train.GradientDescentOptimizer(.1), CPUS[:2])
    assert [v.op.name for _, v in step.grads_and_vars] == ["shared/kernel"]
    t = np.tanh(x)
    expected = (x.T @ (1 - t ** 2) + t.T @ np.ones_like(x)) / 4
    np.testing.assert_allclose(oracles.evaluate(step.grads_and_vars[0][0]), expected, rtol=1e-5)


def test_checkpoints_pass_between_any_numbers_of_towers_and_one_device(tmp_path):
    path = str(tmp_path / "model")
    build(network, 3, training=True)
    with oracles.session() as sess:
        oracles.initialize(sess)
        tf.train.Saver().save(sess, path)
        saved = sess.run({v.op.name: v for v in tf.global_variables()})
    assert not any("tower" in name for name, _ in tf.train.list_variables(path))
    for num_towers in (0, 1, 2):
        with tf.Graph().as_default():
            if num_towers:
                build(network, num_towers)
            else:
                network(tf.ones([2, 4]))
            with oracles.session() as sess:
                tf.train.Saver().restore(sess, path)
                for name, value in sess.run({v.op.name: v for v in tf.global_variables()}).items():
                    np.testing.assert_array_equal(value, saved[name])


def test_resource_variables_whatever_the_default():
    before = tf.resource_variables_enabled()
    tf.disable_resource_variables()
    try:
        build(lambda x: tf.get_variable("w", [4]) * x, 2)
        build(lambda x: tf.Variable(1.) * x, 1)
    finally:
        (tf.enable_resource_variables if before else tf.disable_resource_variables)()
    assert all(v.op.type == "VarHandleOp" for v in tf.global_variables())


def test_a_model_that_leaves_its_name_scope():
    def model(x):
        with tf.name_scope(None):
            with tf.variable_scope("top", auxiliary_name_scope=False):
                w = tf.get_variable("w", [4], initializer=tf.ones_initializer())
            y = towers.sync_bn(w * x, name="bn")
        with tf.name_scope("absolute/"):
            return tf.reduce_sum(tf.sin(y * tf.get_variable("v", [4], initializer=tf.ones_initializer())))

    step = towers.build_train_step(model, [tf.constant(np.random.RandomState(i).randn(3, 4), tf.float32) for i in range(2)],
                                   tf.train.GradientDescentOptimizer(.1), CPUS[:2])
    assert set(v.op.name for _, v in step.grads_and_vars) == {"top/w", "bn/gamma", "bn/beta", "v"}
    for tower in step.tower_gradients:
        assert all(gradient is not None for gradient in tower)
    oracles.evaluate(step.train_op)
