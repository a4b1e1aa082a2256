"""Reductions over the towers, their gradients, and weighted means."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def values(seed=0, shape=(2, 3), num_towers=3):
    return [np.random.RandomState(seed + i).randn(*shape) for i in range(num_towers)]


def reduced(layer, xs):
    """Each tower's result of `layer` and the gradient of sum_i <c_i, result_i> with respect to each x_i."""
    tensors = [tf.constant(x) for x in xs]
    ys = towers.build(layer, tensors, CPUS[:len(xs)])
    weights = [np.random.RandomState(9 + i).randn(*y.shape.as_list()) for i, y in enumerate(ys)]
    gradients = tf.gradients([tf.reduce_sum(y * w) for y, w in zip(ys, weights)], tensors)
    ys, gradients = oracles.evaluate([ys, gradients])
    return ys, gradients, weights


@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_all_sum_and_its_gradient(num_towers):
    xs = values(num_towers=num_towers)
    ys, gradients, weights = reduced(towers.all_sum, xs)
    for y, gradient in zip(ys, gradients):
        np.testing.assert_allclose(y, sum(xs), rtol=1e-12)
        np.testing.assert_allclose(gradient, sum(weights), rtol=1e-12)


@pytest.mark.parametrize("num_towers", [1, 3])
def test_all_mean_counts_towers_equally(num_towers):
    xs = values(num_towers=num_towers)
    ys, gradients, weights = reduced(towers.all_mean, xs)
    for y, gradient in zip(ys, gradients):
        np.testing.assert_allclose(y, sum(xs) / num_towers, rtol=1e-12)
        np.testing.assert_allclose(gradient, sum(weights) / num_towers, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_all_concat_and_its_gradient(axis):
    xs = values()
    ys, gradients, weights = reduced(lambda x: towers.all_concat(x, axis=axis), xs)
    for i, (y, gradient) in enumerate(zip(ys, gradients)):
        np.testing.assert_array_equal(y, np.concatenate(xs, axis))
        np.testing.assert_allclose(gradient, np.split(sum(weights), 3, axis)[i], rtol=1e-12)


def test_all_concat_of_unequal_sizes_and_of_strings():
    xs = [tf.placeholder_with_default(np.arange(n), [None]) for n in (2, 0, 3)]
    for y in oracles.evaluate(towers.build(towers.all_concat, xs, CPUS[:3])):
        assert y.tolist() == [0, 1, 0, 1, 2]
    strings = [tf.constant(["a"]), tf.constant(["b", "c"])]
    assert oracles.evaluate(towers.build(towers.all_concat, strings, CPUS[:2])[1]).tolist() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8, tf.float16, tf.bfloat16, tf.float64, tf.complex64])
def test_all_sum_of_every_dtype_that_adds(dtype):
    xs = [tf.cast(tf.constant([i, 2]), dtype) for i in range(3)]
    for y in towers.build(towers.all_sum, xs, CPUS[:3]):
        assert y.dtype == dtype
    total = oracles.evaluate(tf.cast(y, tf.complex64))
    assert total.tolist() == [3, 6]


def test_all_mean_of_integers_divides_truly():
    mean = oracles.evaluate(towers.build(towers.all_mean, [tf.constant(1), tf.constant(2)], CPUS[:2])[0])
    assert mean == 1.5


def test_values_that_are_no_tensors_are_converted():
    results = towers.build(lambda x: (towers.all_sum(2.5), towers.all_concat([1, 2])), [tf.ones([])] * 2, CPUS[:2])
    total, both = oracles.evaluate(results[1])
    assert total == 5. and both.tolist() == [1, 2, 1, 2]


def test_outside_a_build_reductions_are_those_of_one_tower():
    x = tf.constant([1., 2.])
    got = oracles.evaluate([towers.all_sum(x), towers.all_mean(x), towers.all_concat(x),
                            towers.merge(lambda xs: xs[0] * 2., x), towers.merge(lambda xs: [3. * xs[0]], x),
                            towers.weighted_mean(x, [1., 3.])])
    assert [np.ravel(value).tolist() for value in got] == [[1, 2], [1, 2], [1, 2], [2, 4], [3, 6], [1.75]]
    with pytest.raises(towers.TowerError, match="list of 2"):
        towers.merge(lambda xs: xs * 2, x)


def test_merge_runs_its_function_once_over_lists_in_tower_order():
    calls = []

    def function(*lists):
        calls.append(lists)
        return [tf.reduce_sum(lists[0][i] * lists[1][2 - i]) for i in range(3)]

    def model(x):
        return towers.merge(function, x, 10. * x)

    got = oracles.evaluate(towers.build(model, [tf.constant(float(i + 1)) for i in range(3)], CPUS[:3]))
    assert got == [30., 40., 30.] and len(calls) == 1
    assert type(calls[0][0]) is list and len(calls[0]) == 2 and len(calls[0][1]) == 3


@pytest.mark.parametrize("whole", [
    lambda xs: tf.add_n(xs), lambda xs: (xs[0], xs[2]), lambda xs: {"first": xs[0], "rest": tuple(xs[1:])}, lambda xs: None])
def test_what_is_no_list_goes_whole_to_every_tower(whole):
    made = []
    results = towers.build(lambda x: towers.merge(lambda xs: made.append(whole(xs)) or made[0], x),
                           [tf.ones([])] * 3, CPUS[:3])
    assert len(made) == 1 and all(result is made[0] for result in results)


@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_a_list_of_another_length_is_refused(length):
    with pytest.raises(towers.TowerError, match="list of %d.*3 towers" % length):
        oracles.within(60, lambda: towers.build(
            lambda x: towers.merge(lambda xs: [xs[0]] * length, x), [tf.ones([])] * 3, CPUS[:3]))


@pytest.mark.parametrize("inner", [
    lambda xs: towers.all_sum(xs[0]), lambda xs: towers.merge(tf.add_n, xs[0])])
def test_a_merge_in_a_merge_function_is_refused(inner):
    """The second kind is the same layer as the one around it: it must not be taken for it."""
    def model(x):
        x = towers.merge(tf.add_n, x)
        return towers.merge(inner, x)

    with pytest.raises(towers.TowerError, match="inside a merge function"):
        oracles.within(60, lambda: towers.build(model, [tf.ones([])] * 2, CPUS[:2]))
    assert not oracles.tower_threads()


WEIGHTS = [np.array([1., 0., 2.]), np.array([0.]), np.array([.5, 3.])]
VALUES = [np.array([2., np.nan, -1.]), np.array([np.inf]), np.array([4., 5.])]


def test_weighted_mean_is_the_mean_of_the_whole_batch():
    inputs = [(tf.constant(v), tf.constant(w)) for v, w in zip(VALUES, WEIGHTS)]
    parts = towers.build(towers.weighted_mean, inputs, CPUS[:3])
    gradients = tf.gradients(tf.add_n(parts) / 3, [v for v, _ in inputs])
    parts, gradients = oracles.evaluate([parts, gradients])
    some = [(v, w) for values_, weights in zip(VALUES, WEIGHTS) for v, w in zip(values_, weights) if w]
    total = sum(w for _, w in some)
    np.testing.assert_allclose(np.mean(parts), sum(v * w for v, w in some) / total, rtol=1e-12)
    for gradient, weights in zip(gradients, WEIGHTS):
        np.testing.assert_allclose(gradient, weights / total, rtol=1e-12)


@pytest.mark.parametrize("weight_dtype", [np.bool_, np.int32, np.float32, np.float64])
def test_weighted_mean_takes_weights_of_any_dtype_that_broadcast(weight_dtype):
    v = np.arange(6, dtype=np.float32).reshape(2, 3)
    w = np.array([[1], [0]]).astype(weight_dtype)
    got = oracles.evaluate(towers.build(lambda x: towers.weighted_mean(x, w), [tf.constant(v)] * 2, CPUS[:2]))
    np.testing.assert_allclose(np.mean(got), 1.)


def test_weighted_mean_is_0_with_gradient_0_when_all_weights_are():
    v = [tf.constant([1., np.nan]), tf.constant([3.])]
    parts = towers.build(lambda x: towers.weighted_mean(x, tf.zeros_like(x)), v, CPUS[:2])
    parts, gradients = oracles.evaluate([parts, tf.gradients(parts, v)])
    assert parts == [0., 0.] and [g.tolist() for g in gradients] == [[0., 0.], [0.]]


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_weighted_mean_of_halves_is_summed_in_float32(dtype):
    parts = towers.build(lambda x: towers.weighted_mean(x, tf.ones_like(x)),
                         [tf.fill([3000], tf.cast(100., dtype))] * 2, CPUS[:2])
    assert parts[0].dtype == dtype
    assert oracles.evaluate(tf.cast(tf.stack(parts), tf.float32)).tolist() == [100., 100.]


def test_weighted_mean_with_an_empty_tower():
    v = [tf.placeholder_with_default(np.array(x, np.float32), [None]) for x in ([1., 3.], [])]
    parts = oracles.evaluate(towers.build(lambda x: towers.weighted_mean(x, tf.ones_like(x)), v, CPUS[:2]))
    assert np.mean(parts) == 2.


def test_weighted_mean_of_integers_is_refused():
    with pytest.raises(ValueError, match="int32"):
        towers.weighted_mean(tf.constant([1, 2]), 1.)
