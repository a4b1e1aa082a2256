"""Half-precision towers: float32 variables, gradients close to float32's, and float16 steps that are skipped."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from absl import logging

import towers
from tests.towers import oracles

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randn(6, 8, 8, 3).astype(np.float32)
TARGETS = RANDOM.randn(6, 4).astype(np.float32)
HALVES = ("bfloat16", "float16")


def model(images, targets, seen=None):
    x = towers.layers.conv2d(images, 8, 3, padding="same", use_bias=False)
    x = tf.nn.tanh(towers.sync_bn(x, momentum=.9))
    x = towers.layers.conv2d(x, 8, 3, strides=2, padding="same")
    x = tf.nn.tanh(towers.sync_bn(x, momentum=.9))
    y = towers.layers.dense(towers.layers.flatten(x), 4)
    if seen is not None:
        seen.append((images.dtype, x.dtype, y.dtype))
    return {"loss": towers.weighted_mean(tf.square(tf.cast(y, tf.float32) - tf.cast(targets, tf.float32)), 1.), "y": y}


def build(precision, num_towers=2, images=None, **kwargs):
    tf.set_random_seed(1)
    images = tf.constant(IMAGES) if images is None else images
    parts = towers.split_batch((images, tf.constant(TARGETS)), num_towers)
    return towers.build_train_step(model, parts, tf.train.MomentumOptimizer(.05, .9), oracles.CPUS[:num_towers],
                                   precision=precision, **kwargs)


def losses(precision, steps, **kwargs):
    with tf.Graph().as_default():
        step = build(precision, **kwargs)
        with oracles.session() as sess:
            oracles.initialize(sess)
            return [sess.run([step.loss, step.train_op])[0] for _ in range(steps)], sess.run(tf.trainable_variables())


@pytest.mark.parametrize("precision", HALVES)
def test_variables_are_float32_and_activations_half(precision):
    seen = []
    half = tf.as_dtype(precision)
    parts = towers.split_batch((tf.constant(IMAGES), tf.constant(TARGETS)), 2)
    step = towers.build_train_step(lambda *inputs: model(*inputs, seen=seen), parts, tf.train.AdamOptimizer(),
                                   oracles.CPUS[:2], precision=precision)
    assert seen == [(half, half, half)] * 2
    variables = [v for v in tf.global_variables() if v.dtype.base_dtype.is_floating]
    assert len(variables) > 10 and set(v.dtype.base_dtype for v in variables) == {tf.float32}
    assert set(g.dtype for g, _ in step.grads_and_vars) == {tf.float32}
    assert step.loss.dtype == tf.float32


@pytest.mark.parametrize("precision,tolerance", [("bfloat16", .02), ("float16", .02)])
@pytest.mark.parametrize("num_towers", [1, 3])
def test_training_follows_float32(precision, tolerance, num_towers):
    expected, _ = losses(None, 30, num_towers=num_towers)
    got, _ = losses(precision, 30, num_towers=num_towers)
    assert expected[-1] < .5 * expected[0]
    np.testing.assert_allclose(got, expected, atol=tolerance * expected[0])


def test_float32_is_the_types_as_they_are():
    assert losses("float32", 3)[0] == losses(None, 3)[0]


def test_the_names_in_a_checkpoint_are_float32s_and_the_scales():
    names = {}
    for precision in (None,) + HALVES:
        with tf.Graph().as_default():
            build(precision)
            names[precision] = set(v.op.name for v in tf.global_variables())
    assert names["bfloat16"] == names[None]
    assert names["float16"] == names[None] | {
        "loss_scale/scale", "loss_scale/good_steps", "loss_scale/skipped_runs"}


def test_tower_gradients_and_averages_are_unscaled():
    with tf.Graph().as_default():
        step, plain = build("float16"), {}
        with oracles.session() as sess:
            oracles.initialize(sess)
            half = sess.run([g for g, _ in step.grads_and_vars])
            towers_ = sess.run(step.tower_gradients)
    with tf.Graph().as_default():
        step = build(None)
        with oracles.session() as sess:
            oracles.initialize(sess)
            plain = sess.run([g for g, _ in step.grads_and_vars])
    for a, b, first, second in zip(half, plain, *towers_):
        np.testing.assert_allclose(a, b, atol=5e-3 * max(np.abs(b).max(), .1))
        np.testing.assert_allclose((first + second) / 2, a, rtol=1e-5, atol=1e-7)


def test_a_step_that_overflows_is_skipped_and_halves_the_scale(monkeypatch):
    warnings = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    images = tf.placeholder(tf.float32, IMAGES.shape)
    step = build("float16", images=images)
    assert not warnings  # no update op but ours
    good, bad = IMAGES, IMAGES * np.float32(np.nan)
    everything = [v for v in tf.global_variables() if not v.op.name.startswith("loss_scale")]
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op, {images: good})
        before, scale = sess.run([everything, step.loss_scale])
        sess.run(step.train_op, {images: bad})
        after, halved = sess.run([everything, step.loss_scale])
        for variable, a, b in zip(everything, before, after):
            assert np.array_equal(a, b), variable.op.name
        assert halved == scale / 2
        sess.run(step.train_op, {images: good})
        assert sess.run(step.global_step) == 2
        moved = sess.run(everything)
        assert not any(np.array_equal(a, b) for v, a, b in zip(everything, after, moved) if "moving" in v.op.name)


def test_an_overflow_of_the_scaled_gradient_alone_is_skipped_too():
    step = build("float16")
    scale = [v for v in tf.global_variables() if v.op.name == "loss_scale/scale"][0]
    with oracles.session() as sess:
        oracles.initialize(sess)
        scale.load(2. ** 24, sess)  # the loss is finite, 2^24 times its gradient is not in half precision
        before = sess.run(tf.trainable_variables())
        skipped = 0
        while sess.run(step.global_step) == 0:
            assert all(np.array_equal(a, b) for a, b in zip(before, sess.run(tf.trainable_variables())))
            sess.run(step.train_op)
            skipped += 1
        assert 1 < skipped < 20
        assert sess.run(scale) == 2. ** (24 - skipped + 1)


def test_the_scale_doubles_after_2000_good_steps():
    step = build("float16")
    count = [v for v in tf.global_variables() if v.op.name == "loss_scale/good_steps"][0]
    with oracles.session() as sess:
        oracles.initialize(sess)
        first = sess.run(step.loss_scale)
        count.load(1998, sess)
        sess.run(step.train_op)
        assert (sess.run(step.loss_scale), sess.run(count)) == (first, 1999)
        sess.run(step.train_op)
        assert (sess.run(step.loss_scale), sess.run(count)) == (2 * first, 0)


def test_update_ops_that_cannot_be_skipped_are_named(monkeypatch):
    warnings = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))

    def own(images, targets):
        counter = tf.get_variable("calls", [], tf.float32, tf.zeros_initializer(), trainable=False)
        if towers.current_tower().keeps_state:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(counter, 1.))
        return model(images, targets)

    parts = towers.split_batch((tf.constant(IMAGES), tf.constant(TARGETS)), 2)
    towers.build_train_step(own, parts, tf.train.MomentumOptimizer(.05, .9), oracles.CPUS[:2], precision="float16")
    assert len(warnings) == 1 and warnings[0].endswith("cannot be: calls")


def test_accumulation_leaves_out_a_micro_batch_that_overflows():
    images = tf.placeholder(tf.float32, IMAGES.shape)
    step = build("float16", images=images, accumulate_steps=2)
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(tf.local_variables_initializer())
        seen = []
        for batch in (IMAGES, IMAGES * np.float32(np.inf), IMAGES):
            sess.run(step.train_op, {images: batch})
            seen.append(int(sess.run(step.global_step)))
        assert seen == [0, 0, 1]
        assert all(np.isfinite(value).all() for value in sess.run(tf.global_variables()))


@pytest.mark.parametrize("precision", ["half", "float64", 16, tf.float16])
def test_another_precision_is_refused(precision):
    with pytest.raises(ValueError, match="wanted 'float32' .or None., 'bfloat16' or 'float16'"):
        build(precision)
