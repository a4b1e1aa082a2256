"""sync_bn on N towers is batch norm of the concatenated batch: forward, backward, moving statistics."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

STATISTICS = ["sum", "concat"]
EPSILON = 1e-3


def tower_step(parts, statistics="sum", dtype=None, axis=-1, gamma=None, beta=None, dys=None, placeholders=None,
               steps=1, **kwargs):
    """One training build of `sync_bn` over `parts`, loss_i = sum(y_i dy_i): everything it gives, in float64."""
    channels = parts[0].shape[axis]
    gamma = np.linspace(.5, 2, channels) if gamma is None else gamma
    beta = np.linspace(-1, 1, channels) if beta is None else beta
    random = np.random.RandomState(7)
    dys = [random.randn(*part.shape) for part in parts] if dys is None else dys
    dtype = tf.as_dtype(dtype or parts[0].dtype)
    feed = {}
    if placeholders is None:
        xs = [tf.constant(part, dtype) for part in parts]
    else:
        xs = [tf.placeholder(dtype, placeholders) for _ in parts]
        feed = dict(zip(xs, parts))
    kwargs.setdefault("epsilon", EPSILON)
    kwargs.setdefault("gamma_initializer", tf.constant_initializer(gamma))
    kwargs.setdefault("beta_initializer", tf.constant_initializer(beta))

    def model(x, dy):
        y = towers.sync_bn(x, axis=axis, statistics=statistics, name="bn", **kwargs)
        assert y.dtype == x.dtype and y.shape.ndims == x.shape.ndims
        return y, tf.reduce_sum(tf.cast(y, tf.float64) * dy)

    results = towers.build(model, list(zip(xs, dys)), oracles.CPUS[:len(parts)], training=True)
    ys, losses = zip(*results)
    dxs = tf.gradients(losses, xs)
    trained = tf.trainable_variables()
    dparams = tf.gradients(losses, trained)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with oracles.session() as sess:
        oracles.initialize(sess)
        values = sess.run(dict(y=list(ys), dx=dxs, dparams=dict(zip([v.op.name for v in trained], dparams))), feed)
        for _ in range(steps):
            sess.run(updates, feed)
        values["state"] = {v.op.name: sess.run(v) for v in tf.global_variables() if "moving" in v.name or "num" in v.name}
    values["expected"] = oracles.BatchNorm([np.asarray(part, np.float64) for part in parts], gamma, beta,
                                           kwargs["epsilon"], dys, axis)
    return values


def assert_equals_one_device(values, tolerance, momentum=.99):
    expected = values["expected"]
    for y, dx, expected_y, expected_dx in zip(values["y"], values["dx"], expected.y, expected.dx):
        np.testing.assert_allclose(np.float64(y), expected_y, atol=tolerance, rtol=tolerance)
        scale = max(1, np.abs(expected_dx).max()) if expected_dx.size else 1
        np.testing.assert_allclose(np.float64(dx) / scale, expected_dx / scale, atol=tolerance)
    total = np.sqrt(expected.count)
    np.testing.assert_allclose(values["dparams"]["bn/gamma"] / total, expected.dgamma / total, atol=tolerance)
    np.testing.assert_allclose(values["dparams"]["bn/beta"] / total, expected.dbeta / total, atol=tolerance)
    rate = 1 - momentum
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], rate * expected.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], momentum + rate * expected.unbiased,
                               rtol=tolerance, atol=tolerance)


def batches(shapes, dtype=np.float64, seed=0, mean=.7, std=1.5):
    random = np.random.RandomState(seed)
    return [(mean + std * random.randn(*shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("num_towers,statistics,shape", [
    (n, statistics, shape) for n in (1, 2, 3, 4) for statistics in STATISTICS for shape in ((3, 5), (2, 3, 4, 5))
] + [(8, "sum", (2, 3, 4, 5)), (8, "concat", (3, 5))])
def test_any_number_of_towers_equals_one_device(statistics, num_towers, shape):
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
        tf.reset_default_graph()
        values = tower_step(batches([shape] * num_towers, dtype), statistics)
        assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [
    ("sum", np.float64, 1e-10), ("concat", np.float64, 1e-10), ("sum", np.float32, 1e-5)])
@pytest.mark.parametrize("shapes", [
    [(3, 4), (1, 4), (5, 4)], [(2, 3, 7), (1, 5, 7)], [(2, 2, 3, 2, 3), (1, 4, 1, 2, 3)],
    [(1, 6, 5, 3), (3, 2, 9, 3), (2, 1, 1, 3)]], ids=["rank2", "rank3", "rank5", "image_sizes"])
def test_uneven_batches_and_sizes_count_by_their_elements(statistics, dtype, tolerance, shapes):
    assert_equals_one_device(tower_step(batches(shapes, dtype), statistics), tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [("sum", np.float64, 1e-10), ("concat", np.float32, 1e-5)])
@pytest.mark.parametrize("shapes", [[(2, 3, 4, 5), (1, 3, 6, 2)], [(4, 3), (2, 3)], [(2, 3, 5), (2, 3, 4)]],
                         ids=["rank4", "rank2", "rank3"])
def test_axis_one(statistics, dtype, tolerance, shapes):
    assert_equals_one_device(tower_step(batches(shapes, dtype), statistics, axis=1), tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("axis,placeholders", [(-1, [None, None, None, 3]), (-1, [None, 4, None, 3]), (-1, [None, 3]),
                                               (1, [None, 3, None, None])])
def test_unknown_batch_and_image_sizes(statistics, axis, placeholders):
    shapes = {2: [(4, 3), (1, 3)], 4: [(2, 4, 5, 3), (1, 4, 2, 3)] if axis == -1 else [(2, 3, 4, 5), (1, 3, 2, 2)]}
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-5)):
        tf.reset_default_graph()
        values = tower_step(batches(shapes[len(placeholders)], dtype), statistics, axis=axis, placeholders=placeholders)
        assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics,dtype,tolerance", [
    ("concat", np.float64, 1e-10), ("concat", np.float32, 1e-5), ("sum", np.float32, 1e-5)])
@pytest.mark.parametrize("sizes", [(3, 0), (0, 4), (0, 2, 0)])
@pytest.mark.parametrize("rank", [2, 4])
def test_towers_without_examples_change_nothing(statistics, dtype, tolerance, sizes, rank):
    shapes = [(size, 3, 2, 5)[:1] + ((5,) if rank == 2 else (3, 2, 5)) for size in sizes]
    values = tower_step(batches(shapes, dtype), statistics, placeholders=[None] + list(shapes[0][1:]))
    assert_equals_one_device(values, tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_no_example_on_any_tower_leaves_the_state_alone(statistics):
    values = tower_step(batches([(0, 2, 2, 3)] * 2, np.float32), statistics, placeholders=[None, 2, 2, 3])
    np.testing.assert_array_equal(values["state"]["bn/moving_mean"], np.zeros(3))
    np.testing.assert_array_equal(values["state"]["bn/moving_variance"], np.ones(3))


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_one_value_per_channel_on_each_tower(statistics, dtype, tolerance):
    assert_equals_one_device(tower_step(batches([(1, 1, 1, 6)] * 4, dtype), statistics), tolerance)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_a_global_count_of_one_is_never_nan(statistics):
    values = tower_step(batches([(1, 1, 1, 6)], np.float32), statistics)
    assert all(np.isfinite(v).all() for v in list(values["state"].values()) + values["y"] + values["dx"])


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("shapes", [[(2, 8, 8, 4)] * 3, [(64, 4), (32, 4)]])
@pytest.mark.parametrize("axis", [-1, 1])
def test_mean_1000_deviation_a_tenth_in_float32(statistics, shapes, axis):
    parts = batches(shapes, np.float32, mean=1000., std=.1)
    if axis == 1:
        parts = [np.moveaxis(part, -1, 1).copy() for part in parts]
    values = tower_step(parts, statistics, epsilon=1e-5, axis=axis)
    expected = values["expected"]
    # float32 itself holds 1000 to 6e-5, 6e-4 deviations; the inputs are what they are, so the statistics can be exact.
    for y, expected_y in zip(values["y"], expected.y):
        np.testing.assert_allclose(y, expected_y, atol=2e-3)
    for dx, expected_dx in zip(values["dx"], expected.dx):
        np.testing.assert_allclose(dx, expected_dx, atol=2e-3 * np.abs(expected_dx).max())
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], .01 * expected.mean, rtol=1e-6)
    np.testing.assert_allclose((values["state"]["bn/moving_variance"] - .99) / .01, expected.unbiased, atol=2e-5)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_a_mean_1000_variance_is_right_to_a_thousandth(statistics):
    """The moving variance at momentum 0 is the batch's: no digits hidden by the old state."""
    parts = batches([(2, 8, 8, 4)] * 2, np.float32, mean=1000., std=.1)
    values = tower_step(parts, statistics, momentum=0.)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], values["expected"].unbiased, rtol=1e-3)
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], values["expected"].mean, rtol=2e-7)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_an_offset_that_differs_between_towers(statistics):
    parts = [part + np.float32(offset) for part, offset in zip(
        batches([(2, 4, 4, 3)] * 4, np.float32, mean=0., std=.1), [0, 3000, -5000, 10])]
    values = tower_step(parts, statistics, momentum=0.)
    expected = values["expected"]
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], expected.unbiased, rtol=1e-5)
    for y, expected_y in zip(values["y"], expected.y):
        np.testing.assert_allclose(y, expected_y, atol=1e-5)
    for dx, expected_dx in zip(values["dx"], expected.dx):
        np.testing.assert_allclose(dx, expected_dx, atol=1e-5 * np.abs(expected_dx).max())


@pytest.mark.parametrize("statistics", STATISTICS)
def test_small_towers_far_from_a_large_one(statistics):
    """One tower's two values far off, the others' deviation tiny: the pivot of no single tower would do."""
    parts = [np.full((1, 1, 1, 2), 1e4, np.float32) + np.arange(2, dtype=np.float32)] + batches(
        [(2, 4, 4, 2)], np.float32, mean=-1e4, std=.01)
    values = tower_step(parts, statistics, momentum=0.)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], values["expected"].unbiased, rtol=1e-5)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("value,num_towers", [(0., 3), (.1, 1), (.1, 3), (1000.1, 1), (1000.1, 3), (-3e7, 2)])
def test_constant_channels_have_variance_zero_and_never_less(statistics, value, num_towers):
    parts = [np.full((2, 5, 3, 4), value, np.float32)] * num_towers
    values = tower_step(parts, statistics, momentum=0., epsilon=1e-5)
    variance = values["state"]["bn/moving_variance"]
    assert (variance >= 0).all()
    np.testing.assert_allclose(variance, 0, atol=(1e-6 * value) ** 2)
    for y in values["y"]:
        np.testing.assert_allclose(y, np.broadcast_to(np.linspace(-1, 1, 4), y.shape),
                                   atol=1e-6 + 1e-6 * abs(value) / np.sqrt(1e-5))
    assert all(np.isfinite(dx).all() for dx in values["dx"])


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("axis", [-1, 1])
def test_half_inputs_have_float32_statistics(statistics, dtype, axis):
    # 300^2 overflows float16, and so does a sum of 96 values of 1000.
    parts = batches([(2, 4, 4, 4), (1, 4, 4, 4)], np.float32, mean=1000., std=300.)
    parts = [np.float32(part.astype(np.float16)) if dtype == tf.float16 else
             (part.view(np.uint32) & np.uint32(0xffff0000)).view(np.float32) for part in parts]
    values = tower_step(parts, statistics, dtype=dtype, axis=axis, momentum=0.)
    expected, unit = values["expected"], 2.**-10 if dtype == tf.float16 else 2.**-7
    assert all(value.dtype == np.float32 for value in values["state"].values())
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], expected.mean, rtol=1e-5)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], expected.unbiased, rtol=1e-5)
    for y, expected_y, dx, expected_dx in zip(values["y"], expected.y, values["dx"], expected.dx):
        np.testing.assert_allclose(np.float64(y), expected_y, atol=8 * unit)
        np.testing.assert_allclose(np.float64(dx), expected_dx, atol=4 * unit * np.abs(expected_dx).max())


@pytest.mark.parametrize("channels,statistics", [(1, "sum"), (2, "concat"), (3, "sum"), (19, "concat"), (129, "sum")])
def test_widths_that_are_no_power_of_two(channels, statistics):
    assert_equals_one_device(tower_step(batches([(2, 2, 3, channels)] * 2, np.float32), statistics), 2e-5)


@pytest.mark.parametrize("statistics,axis", [("sum", -1), ("concat", 1)])
def test_infinite_and_nan_batches_never_reach_the_state(statistics, axis):
    for bad in (np.nan, np.inf, -np.inf, 3e38):
        tf.reset_default_graph()
        parts = batches([(2, 3, 3, 3)] * 2, np.float32)
        parts[1][0, 0, 0, 0] = bad
        values = tower_step(parts, statistics, axis=axis)
        np.testing.assert_array_equal(values["state"]["bn/moving_mean"], np.zeros(3))
        np.testing.assert_array_equal(values["state"]["bn/moving_variance"], np.ones(3))


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_momentum_is_the_mean_of_all_batches(statistics, num_towers, dtype):
    random = np.random.RandomState(3)
    steps = [batches([(2, 4)] * num_towers, dtype, seed=seed, mean=random.randn()) for seed in range(5)]
    xs = [tf.placeholder(dtype, [None, 4]) for _ in range(num_towers)]
    towers.build(lambda x: towers.sync_bn(x, momentum=None, statistics=statistics), xs, oracles.CPUS[:num_towers],
                 training=True)
    names = {v.op.name: v for v in tf.global_variables()}
    with oracles.session() as sess:
        oracles.initialize(sess)
        for parts in steps:
            sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), dict(zip(xs, parts)))
        mean, variance, count = sess.run([names["batch_normalization/" + name]
                                          for name in ("moving_mean", "moving_variance", "num_updates")])
    expected = [oracles.BatchNorm(parts, 1, 0, 1e-3) for parts in steps]
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(mean, np.mean([e.mean for e in expected], 0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(variance, np.mean([e.unbiased for e in expected], 0), rtol=tolerance, atol=tolerance)
    assert count == 5


@pytest.mark.parametrize("scale,center", [(False, True), (True, False), (False, False)])
@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_without_scale_or_center(scale, center, dtype, tolerance):
    parts = batches([(2, 3, 3, 4)] * 2, dtype)
    gamma = np.linspace(.5, 2, 4) if scale else np.ones(4)
    beta = np.linspace(-1, 1, 4) if center else np.zeros(4)
    values = tower_step(parts, gamma=gamma, beta=beta, scale=scale, center=center)
    names = set(v.op.name for v in tf.trainable_variables())
    assert names == set((["bn/gamma"] if scale else []) + (["bn/beta"] if center else []))
    for i in range(2):
        np.testing.assert_allclose(values["y"][i], values["expected"].y[i], atol=tolerance)
        np.testing.assert_allclose(values["dx"][i], values["expected"].dx[i], atol=tolerance)


def moments_of(parts):
    both = np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts]).astype(np.float64)
    return both.mean(0), both.var(0)


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_training_as_a_tensor_chooses_at_run_time(statistics, num_towers, dtype, tolerance):
    parts = batches([(3, 4)] * num_towers, dtype, mean=5.)
    training = tf.placeholder(tf.bool, [])
    xs = [tf.constant(part) for part in parts]
    mean0, variance0 = np.linspace(4, 6, 4), np.linspace(.5, 4, 4)

    def model(x):
        return towers.sync_bn(x, training=training, statistics=statistics, name="bn",
                              moving_mean_initializer=tf.constant_initializer(mean0),
                              moving_variance_initializer=tf.constant_initializer(variance0))

    ys = towers.build(model, xs, oracles.CPUS[:num_towers], training=True)
    dxs = tf.gradients([tf.reduce_sum(tf.sin(y)) for y in ys], xs)
    state = [v for v in tf.global_variables() if "moving" in v.name]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with oracles.session() as sess:
        for on in (False, True):
            oracles.initialize(sess)
            values, gradients = sess.run([ys, dxs], {training: on})
            sess.run(updates, {training: on})
            after = {v.op.name: sess.run(v) for v in state}
            frozen = [(part - mean0) / np.sqrt(variance0 + 1e-3) for part in parts]
            expected = oracles.BatchNorm(parts, 1, 0, 1e-3, [np.cos(np.float64(y)) for y in values])
            for i in range(num_towers):
                np.testing.assert_allclose(values[i], expected.y[i] if on else frozen[i], atol=tolerance, rtol=tolerance)
                dx = expected.dx[i] if on else np.cos(frozen[i]) / np.sqrt(variance0 + 1e-3)
                np.testing.assert_allclose(gradients[i], dx, atol=tolerance)
            rate = .01 if on else 0
            np.testing.assert_allclose(after["bn/moving_mean"], mean0 + rate * (expected.mean - mean0), rtol=1e-6)
            np.testing.assert_allclose(after["bn/moving_variance"],
                                       variance0 + rate * (expected.unbiased - variance0), rtol=1e-6)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
def test_inference_uses_the_moving_statistics_and_makes_no_merge(axis, dtype):
    x = np.random.RandomState(0).randn(2, 4, 4, 4)
    mean, variance = np.linspace(-1, 1, 4), np.linspace(.5, 2, 4)
    kwargs = dict(moving_mean_initializer=tf.constant_initializer(mean),
                  moving_variance_initializer=tf.constant_initializer(variance))
    inputs = [tf.constant(x, dtype)] * 3
    ys = towers.build(lambda t: towers.sync_bn(t, axis=axis, **kwargs), inputs, oracles.CPUS[:3])
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    for i, y in enumerate(ys):
        others = set("tower_%d/" % j for j in range(1, 3) if j != i)
        for op in oracles.ancestors(y.op):
            assert not any(op.name.startswith(other) for other in others) and "merge/" not in op.name
    shape = (-1, 1, 1) if axis == 1 else (-1,)
    expected = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-3)
    tolerance = {tf.float16: 5e-3, tf.float32: 1e-5, tf.float64: 1e-12}[dtype]
    for y in oracles.evaluate(ys):
        np.testing.assert_allclose(np.float64(y), expected, atol=tolerance)


def test_frozen_statistics_and_frozen_affine():
    """training=False inside a training build freezes the statistics, trainable=False the affine part too."""
    def model(x):
        y = towers.sync_bn(x, training=False, name="statistics")
        y = towers.sync_bn(y, training=False, trainable=False, name="both")
        return tf.reduce_sum(tf.sin(y * tf.get_variable("w", initializer=2.)))

    step = towers.build_train_step(model, [tf.ones([2, 3])] * 2, tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:2])
    assert step.update_ops == []
    assert set(v.op.name for v in tf.trainable_variables()) == {"statistics/gamma", "statistics/beta", "w"}
    with oracles.session() as sess:
        oracles.initialize(sess)
        sess.run(step.train_op)
        state = {v.op.name: sess.run(v) for v in tf.global_variables()}
    np.testing.assert_array_equal(state["statistics/moving_mean"], np.zeros(3))
    np.testing.assert_array_equal(state["both/gamma"], np.ones(3))
    assert (state["statistics/gamma"] != 1).all()


def test_the_moving_mean_is_written_once_a_step_whatever_the_number_of_towers():
    for num_towers in (1, 2, 3, 4, 8):
        tf.reset_default_graph()
        parts = batches([(2, 3, 3, 4)] * num_towers, np.float32)

        def model(x):
            y = towers.sync_bn(x, momentum=.9, name="bn")
            return tf.reduce_mean(tf.square(y))

        step = towers.build_train_step(model, [tf.constant(part) for part in parts],
                                       tf.train.GradientDescentOptimizer(0.), oracles.CPUS[:num_towers])
        expected = oracles.BatchNorm(parts, 1, 0, 1e-3)
        mean, variance = np.zeros(4), np.ones(4)
        with oracles.session() as sess:
            oracles.initialize(sess)
            for _ in range(3):
                sess.run(step.train_op)
                mean += .1 * (expected.mean - mean)
                variance += .1 * (expected.unbiased - variance)
            with tf.variable_scope("bn", reuse=True):
                moving = sess.run([tf.get_variable("moving_mean"), tf.get_variable("moving_variance")])
        np.testing.assert_allclose(moving[0], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(moving[1], variance, rtol=1e-5)


def test_only_vectors_cross_devices():
    """No op on one device reads an activation of another, forward or backward."""
    channels = 6

    def model(x):
        y = towers.layers.conv2d(x, channels, 3, padding="same", use_bias=False)
        y = tf.tanh(towers.sync_bn(y))
        return tf.reduce_mean(tf.square(towers.layers.conv2d(y, channels, 3, padding="same", use_bias=False)))

    xs = [tf.zeros([2, 16, 16, channels]) for _ in range(3)]
    step = towers.build_train_step(model, xs, tf.train.GradientDescentOptimizer(.1), oracles.CPUS[1:4])
    kernel, inputs = 3 * 3 * channels * channels, set(x.op for x in xs)
    for op in tf.get_default_graph().get_operations():
        for tensor in op.inputs:
            if op.device and tensor.op.device and op.device != tensor.op.device and tensor.op not in inputs:
                assert tensor.dtype == tf.resource or tensor.shape.num_elements() <= kernel, (op.name, tensor.name)
    assert step.loss.op.device.endswith("CPU:0")


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("num_towers,dtype,tolerance", [
    (1, tf.float32, 1e-4), (3, tf.float64, 1e-9), (3, tf.float32, 1e-4)])
def test_gradient_penalty(statistics, num_towers, dtype, tolerance):
    """Second-order gradients: each tower's |d loss_i / d x_i|^2, written in the model, against one composed device."""
    random = np.random.RandomState(4)
    x, weight = random.randn(2 * num_towers, 3, 3, 4), random.randn(4, 4)

    def penalty(loss, inputs):
        return loss + tf.reduce_sum(tf.square(tf.gradients(loss, inputs)[0]))

    def model(inputs):
        w = tf.get_variable("w", initializer=tf.constant(weight, dtype))
        y = towers.sync_bn(tf.tensordot(inputs, w, 1), statistics=statistics, name="bn")
        return penalty(tf.reduce_sum(tf.sin(y)), inputs)

    step = towers.build_train_step(model, towers.split_batch(tf.constant(x, dtype), num_towers),
                                   tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:num_towers])
    parts = tf.split(tf.constant(x), num_towers)
    w, gamma, beta = tf.constant(weight), tf.ones([4], tf.float64), tf.zeros([4], tf.float64)
    h = tf.tensordot(tf.concat(parts, 0), w, 1)
    mean = tf.reduce_mean(h, [0, 1, 2])
    variance = tf.reduce_mean(tf.square(h - mean), [0, 1, 2])
    y = tf.split((h - mean) / tf.sqrt(variance + 1e-3) * gamma + beta, num_towers)
    losses = [penalty(tf.reduce_sum(tf.sin(y[i])), parts[i]) for i in range(num_towers)]
    expected = tf.gradients(tf.add_n(losses) / num_towers, [w, gamma, beta])
    got = {variable.op.name: gradient for gradient, variable in step.grads_and_vars}
    got = [got["w"], got["bn/gamma"], got["bn/beta"]]
    (loss, got), (expected_losses, expected) = oracles.evaluate([(step.tower_losses, got), (losses, expected)])
    np.testing.assert_allclose(loss, expected_losses, rtol=tolerance)
    for gradient, expected_gradient in zip(got, expected):
        np.testing.assert_allclose(gradient, expected_gradient, atol=tolerance * np.abs(expected_gradient).max())


@pytest.mark.parametrize("where", ["one tower", "all towers"])
def test_an_output_that_the_loss_does_not_use_changes_nothing_else(where):
    parts = batches([(3, 4)] * 2)

    def model(x):
        unused = towers.sync_bn(x, name="unused")
        y = towers.sync_bn(x * tf.get_variable("w", [4], x.dtype, tf.ones_initializer()), name="used")
        loss = tf.reduce_mean(tf.sin(y))
        used = where == "one tower" and towers.current_tower().index == 1
        return loss + (tf.reduce_mean(tf.square(unused)) if used else 0.)

    step = towers.build_train_step(model, [tf.constant(part) for part in parts],
                                   tf.train.GradientDescentOptimizer(.1), oracles.CPUS[:2])
    gradients = {v.op.name: g for g, v in step.grads_and_vars}
    with oracles.session() as sess:
        oracles.initialize(sess)
        gradients, _ = sess.run([gradients, step.train_op])
        state = {v.op.name: sess.run(v) for v in tf.global_variables()}
    expected = oracles.BatchNorm(parts, 1, 0, 1e-3)
    np.testing.assert_allclose(state["unused/moving_mean"], .01 * expected.mean, rtol=1e-10)
    dys = [np.cos(y) / (2 * 12) for y in expected.y]
    expected = oracles.BatchNorm(parts, 1, 0, 1e-3, dys)
    np.testing.assert_allclose(gradients["used/gamma"], expected.dgamma, rtol=1e-9)
    np.testing.assert_allclose(gradients["w"], sum((dx * x).sum(0) for dx, x in zip(expected.dx, parts)), atol=1e-10)
    assert ("unused/gamma" in gradients) == (where == "one tower")


@pytest.mark.parametrize("wrong,match", [
    (dict(statistics="mean"), "'sum' or 'concat'"), (dict(axis=0), "axis"), (dict(axis=7), "axis"),
    (dict(momentum=2.), "momentum"), (dict(epsilon=-1.), "epsilon"), (dict(renorm=True), "renorm"),
    (dict(virtual_batch_size=2), "virtual_batch_size"), (dict(training=tf.zeros), None),
    (dict(training=[True]), None)])
def test_wrong_arguments_are_refused(wrong, match):
    with pytest.raises((ValueError, TypeError), match=match):
        towers.sync_bn(tf.ones([2, 3]), **wrong)


@pytest.mark.parametrize("inputs", [np.ones([2, 3], np.int32), np.ones([3], np.float32)])
def test_wrong_inputs_are_refused(inputs):
    with pytest.raises(ValueError, match="inputs of batch normalisation"):
        towers.sync_bn(inputs)


def test_unknown_channels_are_refused():
    with pytest.raises(ValueError, match="channels"):
        towers.sync_bn(tf.placeholder(tf.float32, [2, None]))


def test_outside_a_build_it_is_one_tower():
    x = np.random.RandomState(0).randn(6, 3)
    y = towers.sync_bn(tf.constant(x), training=True)
    np.testing.assert_allclose(oracles.evaluate(y), oracles.BatchNorm([x], 1, 0, 1e-3).y[0], atol=1e-10)
