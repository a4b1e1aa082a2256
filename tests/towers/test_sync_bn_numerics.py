"""sync_bn where arithmetic is hard: far from zero, constant, half precision, few values, not finite."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.towers.sync_bn_step import STATISTICS, assert_equals_one_device, batches, tower_step


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


@pytest.mark.parametrize("statistics,axis", [("sum", -1), ("concat", 1)])
def test_infinite_and_nan_batches_never_reach_the_state(statistics, axis):
    for bad in (np.nan, np.inf, -np.inf, 3e38):
        tf.reset_default_graph()
        parts = batches([(2, 3, 3, 3)] * 2, np.float32)
        parts[1][0, 0, 0, 0] = bad
        values = tower_step(parts, statistics, axis=axis)
        np.testing.assert_array_equal(values["state"]["bn/moving_mean"], np.zeros(3))
        np.testing.assert_array_equal(values["state"]["bn/moving_variance"], np.ones(3))
