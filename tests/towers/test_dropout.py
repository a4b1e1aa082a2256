"""Dropout masks: a share `rate` of zeros, the same for any number of towers and on resume, new every step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def masks(sizes, steps=2, start=0, known=True, seed=3, rows=lambda x: x, shape=(6,), **kwargs):
    """The masks of two dropout layers over the whole batch: [step, layer, example, ...]."""
    kwargs.setdefault("rate", .4)
    with tf.Graph().as_default():
        if seed is not None:
            tf.set_random_seed(seed)
        values = [np.ones((size,) + shape, np.float32) for size in sizes]
        xs = [tf.placeholder_with_default(value, value.shape if known else (None,) + shape) for value in values]
        w = []

        def model(x):
            w.append(tf.get_variable("w", [], initializer=tf.ones_initializer()))
            y = rows(x * 1.)
            dropped = towers.layers.dropout(y, **kwargs), towers.layers.dropout(y, **kwargs)
            return {"loss": tf.reduce_sum(dropped[0] + dropped[1]) * w[0], "masks": dropped}

        step = towers.build_train_step(model, xs, tf.train.GradientDescentOptimizer(0.), CPUS[:len(sizes)])
        with oracles.session() as sess:
            oracles.initialize(sess)
            sess.run(step.global_step.assign(start))
            result = []
            for _ in range(steps):
                outputs, _ = sess.run([[output["masks"] for output in step.outputs], step.train_op])
                result.append([np.concatenate([output[layer] for output in outputs]) for layer in range(2)])
            return np.array(result)


ONE = [7]


@pytest.mark.parametrize("sizes", [[4, 3], [3, 2, 2], [1] * 7, [0, 5, 2], [2, 0, 5]])
@pytest.mark.parametrize("known", [True, False])
def test_masks_are_the_same_for_any_number_of_towers(sizes, known):
    np.testing.assert_array_equal(masks(sizes, known=known), masks(ONE))


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_are_a_multiple_of_the_examples(known):
    rows = lambda x: tf.reshape(tf.stack([x, x], 1), [-1, 6])  # noqa: E731
    np.testing.assert_array_equal(masks([4, 3], rows=rows, known=known), masks(ONE, rows=rows))


def test_whole_channels_by_noise_shape():
    one = masks(ONE, shape=(3, 3, 4), noise_shape=(None, 1, 1, None))
    np.testing.assert_array_equal(masks([3, 2, 2], shape=(3, 3, 4), noise_shape=(None, 1, 1, None)), one)
    assert (one == one[:, :, :, :1, :1]).all() and one.min() == 0
    shared = masks([4, 3], shape=(3, 3, 4), noise_shape=(1, None, None, None))
    assert (shared == shared[:, :, :1]).all() and shared.min() == 0 < shared.max()


def test_steps_layers_examples_and_seeds_differ():
    first = masks(ONE, shape=(50,))
    assert (first[0] != first[1]).any() and (first[:, 0] != first[:, 1]).any()
    assert len(set(tuple(row) for row in first.reshape(-1, 50))) == 28
    assert (masks(ONE, shape=(50,), seed=4) != first).any()
    assert (masks(ONE, shape=(50,), seed=None) != first).any()


def test_a_layers_own_seed_makes_masks_reproducible_and_the_same_on_all_towers():
    def own(sizes, seed):
        with tf.Graph().as_default():
            values = [tf.ones([size, 20]) for size in sizes]
            step = towers.build_train_step(
                lambda x: {"loss": tf.reduce_sum(x) * tf.get_variable("w", []),
                           "y": towers.layers.dropout(x, .5, seed=seed)},
                values, tf.train.GradientDescentOptimizer(0.), CPUS[:len(sizes)])
            return np.concatenate(oracles.evaluate([output["y"] for output in step.outputs]))

    np.testing.assert_array_equal(own([4], 1), own([1, 3], 1))
    assert (own([4], 1) != own([4], 2)).any()


def test_masks_resume_where_they_stopped():
    whole = masks([4, 3], steps=4)
    np.testing.assert_array_equal(masks([4, 3], steps=2, start=2), whole[2:])
    np.testing.assert_array_equal(masks(ONE, steps=2, start=2), whole[2:])


def test_the_share_of_zeros_and_the_scale():
    values = masks(ONE, shape=(4000,), rate=.25)
    assert set(np.unique(values)) == {0, np.float32(1 / .75)}
    assert abs((values == 0).mean() - .25) < 4 * np.sqrt(.25 * .75 / values.size)


def test_the_gradient_passes_where_the_mask_does():
    x = tf.ones([4, 5])
    y = towers.layers.dropout(x, .5, seed=1, training=True)
    y, gradient = oracles.evaluate([y, tf.gradients(y, x)[0]])
    np.testing.assert_array_equal(y, gradient)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64])
def test_dtypes_are_kept(dtype):
    y = towers.layers.dropout(tf.ones([50, 4], dtype), .5, training=True)
    assert y.dtype == dtype
    assert set(np.unique(np.float64(oracles.evaluate(tf.cast(y, tf.float64))))) == {0., 2.}


def test_training_none_is_the_towers_and_a_bool_or_tensor_overrides_it():
    flag = tf.placeholder(tf.bool, [])
    x = np.ones([40, 3], np.float32)

    def model(inputs):
        return [towers.layers.dropout(inputs, .5, training=training) for training in (None, True, False, flag)]

    for in_build in (True, False):
        results = towers.build(model, [tf.constant(x)] * 2, CPUS[:2], training=in_build)
        for on in (True, False):
            for outputs in oracles.evaluate(results, {flag: on}):
                assert [(y == 0).any() for y in outputs] == [in_build, True, False, on]
    assert (oracles.evaluate(towers.layers.dropout(tf.constant(x), .5)) == 1).all()


def test_without_a_step_every_run_draws_anew_the_same_on_all_towers():
    results = towers.build(lambda x: towers.layers.dropout(x, .5, training=True), [tf.ones([3, 40])] * 2, CPUS[:2])
    whole = towers.layers.dropout(tf.ones([3, 40]), .5, training=True)
    with oracles.session() as sess:
        for fetches in (results, whole):
            assert (np.ravel(sess.run(fetches)) != np.ravel(sess.run(fetches))).any()


def test_a_rate_that_is_a_tensor():
    rate = tf.placeholder(tf.float32, [])
    y = towers.layers.dropout(tf.ones([100, 40]), rate, training=True)
    assert (oracles.evaluate(y, {rate: 0.}) == 1).all()
    assert abs((oracles.evaluate(y, {rate: .9}) == 0).mean() - .9) < .03


@pytest.mark.parametrize("arguments,match", [
    (dict(rate=1.), "rate"), (dict(rate=-.1), "rate"), (dict(inputs=np.ones([2], np.int32)), "int32")])
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        towers.layers.dropout(**dict(dict(inputs=np.ones([2], np.float32), training=True), **arguments))


def test_in_a_loop_and_a_cond(control_flow):
    def model(x):
        y = tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, towers.layers.dropout(y, .5)), [0, x])[1]
        y = tf.cond(tf.constant(True), lambda: towers.layers.dropout(y, .5), lambda: y)
        return tf.reduce_sum(y * tf.get_variable("w", []))

    tf.set_random_seed(1)
    step = towers.build_train_step(model, [tf.ones([3, 4])] * 2, tf.train.GradientDescentOptimizer(.1), CPUS[:2])
    oracles.evaluate(step.train_op)


def test_towers_without_a_batch_among_their_inputs_draw_rows_of_their_own():
    masks = towers.build(lambda i: towers.layers.dropout(tf.ones([2, 40]), .5, seed=3), [tf.constant(i) for i in range(3)],
                         oracles.CPUS[:3], training=True)
    with oracles.session() as sess:
        oracles.initialize(sess)
        assert len(set(mask.tobytes() for mask in sess.run(masks))) == 3
