"""sync_bn(group_size=k): every k towers in a row are batch norm of their own batches together, with one state for all."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles
from tests.towers.sync_bn_step import STATISTICS, batches, tower_step


def by_groups(parts, dys, size, gamma, beta):
    """NumPy: one `BatchNorm` a group, the mean of the whole batch, and the pooled unbiased variance within groups."""
    groups = [oracles.BatchNorm([np.float64(part) for part in parts[i:i + size]], gamma, beta, 1e-3, dys[i:i + size])
              for i in range(0, len(parts), size)]
    count = sum(group.count for group in groups)
    mean = sum(group.count * group.mean for group in groups) / count
    variance = sum(group.count * group.variance for group in groups) / sum(max(group.count - 1, 0) for group in groups)
    return groups, mean, variance


def assert_equals_groups(parts, size, statistics, tolerance, **kwargs):
    channels = parts[0].shape[-1]
    gamma, beta = np.linspace(.5, 2, channels), np.linspace(-1, 1, channels)
    random = np.random.RandomState(8)
    dys = [random.randn(*part.shape) for part in parts]
    values = tower_step(parts, statistics, dys=dys, group_size=size, **kwargs)
    groups, mean, variance = by_groups(parts, dys, size, gamma, beta)
    for got, name in ((values["y"], "y"), (values["dx"], "dx")):
        for part, expected in zip(got, [part for group in groups for part in getattr(group, name)]):
            np.testing.assert_allclose(np.float64(part), expected, atol=tolerance, rtol=tolerance, err_msg=name)
    for name in ("gamma", "beta"):
        expected = sum(getattr(group, "d" + name) for group in groups)
        np.testing.assert_allclose(values["dparams"]["bn/" + name], expected, atol=10 * tolerance, rtol=tolerance)
    np.testing.assert_allclose(values["state"]["bn/moving_mean"], .01 * mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(values["state"]["bn/moving_variance"], .99 + .01 * variance, rtol=tolerance, atol=tolerance)
    return values, groups


@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("sizes,size", [((2, 2, 2, 2), 2), ((3, 1, 2, 5), 2), ((1, 4, 2, 2, 3, 1), 3), ((2, 3), 1)])
def test_groups_equal_one_device_a_group(statistics, sizes, size):
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 2e-5)):
        tf.reset_default_graph()
        parts = [part + i for i, part in enumerate(batches([(count, 3, 2, 5) for count in sizes], dtype))]
        values, groups = assert_equals_groups(parts, size, statistics, tolerance)
        assert np.abs(groups[0].mean - groups[1].mean).min() > .1  # else one group would pass, too
        assert sorted(values["state"]) == ["bn/moving_mean", "bn/moving_variance"]


@pytest.mark.parametrize("statistics", STATISTICS)
def test_sizes_unknown_before_the_graph_runs(statistics):
    parts = [part + i for i, part in enumerate(batches([(2, 4, 5, 3), (1, 2, 2, 3), (3, 1, 1, 3), (1, 6, 2, 3)]))]
    assert_equals_groups(parts, 2, statistics, 1e-10, placeholders=[None, None, None, 3])


def test_a_group_without_examples_changes_nothing():
    parts = [part + i for i, part in enumerate(batches([(0, 3), (0, 3), (3, 3), (4, 3)]))]
    assert_equals_groups(parts, 2, "sum", 1e-10, placeholders=[None, 3])


def test_groups_of_one_value_have_no_variance_to_add():
    parts = [part + i for i, part in enumerate(batches([(1, 3), (1, 3), (5, 3)]))]
    assert_equals_groups(parts, 1, "sum", 1e-10)


@pytest.mark.parametrize("statistics", STATISTICS)
def test_one_group_of_all_towers_is_sync_bn_to_the_bit(statistics):
    parts = [part + i for i, part in enumerate(batches([(2, 3, 3, 4), (1, 3, 3, 4), (3, 3, 3, 4)], np.float32))]
    values = []
    for size in (3, None):
        tf.reset_default_graph()
        values.append(tower_step(parts, statistics, group_size=size))
    for name in ("y", "dx"):
        assert all(np.array_equal(*pair) for pair in zip(values[0][name], values[1][name]))
    for name in ("dparams", "state"):
        assert all(np.array_equal(values[0][name][key], values[1][name][key]) for key in values[1][name])


@pytest.mark.parametrize("dtype,tolerance", [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_groups_of_one_tower_normalise_as_plain_batch_norm(dtype, tolerance):
    parts = [part + i for i, part in enumerate(batches([(2, 3, 3, 4)] * 3, dtype))]
    xs = [tf.constant(part) for part in parts]

    def model(x):
        ys = [towers.layers.batch_normalization(x, sync=sync, group_size=1 if sync else None, name="bn%d" % sync)
              for sync in (False, True)]
        return ys + [tf.reduce_sum(tf.sin(y)) for y in ys]

    plain, grouped, plain_losses, grouped_losses = zip(*towers.build(model, xs, oracles.CPUS[:3], training=True))
    values = oracles.evaluate([plain, grouped, tf.gradients(plain_losses, xs), tf.gradients(grouped_losses, xs)])
    for a, b in (values[:2], values[2:]):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)
    for op in [y.op for y in grouped]:
        others = ["tower_%d/" % i for i in range(3) if not op.name.startswith("tower_%d/" % i)]
        assert not any(before.name.startswith(tuple(others)) for before in oracles.ancestors(op)), "a tower waits for another"


def test_an_infinite_value_in_any_group_leaves_the_state_alone():
    parts = batches([(2, 3)] * 4)
    parts[3][0, 0] = np.inf
    values = tower_step(parts, group_size=2)
    np.testing.assert_array_equal(values["state"]["bn/moving_mean"], np.zeros(3))
    assert np.isfinite(values["y"][0]).all() and np.isfinite(values["y"][1]).all()


def test_no_momentum_counts_steps_once_and_training_may_be_a_tensor():
    parts = [part + i for i, part in enumerate(batches([(2, 3)] * 4))]
    training = tf.placeholder(tf.bool, [])
    towers.build(lambda x: towers.sync_bn(x, momentum=None, group_size=2, training=training, name="bn"),
                 [tf.constant(part) for part in parts], oracles.CPUS[:4], training=True)
    _, mean, variance = by_groups(parts, parts, 2, 1, 0)
    with oracles.session() as session:
        oracles.initialize(session)
        for on in (True, False, True):
            session.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), {training: on})
        state = {v.op.name: session.run(v) for v in tf.global_variables()}
    assert state["bn/num_updates"] == 2
    np.testing.assert_allclose(state["bn/moving_mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(state["bn/moving_variance"], variance, rtol=1e-12)


def test_the_same_checkpoint_serves_every_group_size():
    def names(size):
        with tf.Graph().as_default():
            towers.build(lambda x: towers.sync_bn(x, group_size=size), [tf.ones([2, 3])] * 4, oracles.CPUS[:4], training=True)
            return [v.op.name for v in tf.global_variables()], len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))

    assert names(None) == names(1) == names(2)


@pytest.mark.parametrize("size,says", [
    (3, "group_size is 3, and there are 4 towers; wanted a divisor of that, so that all groups are of one size: 1, 2, 4"),
    (8, "there are 4 towers"), (0, "integer of at least 1"), (-2, "integer of at least 1"), (2., "integer of at least 1"),
    (True, "integer of at least 1"), ("2", "integer of at least 1")])
def test_a_size_that_does_not_fit_is_refused_in_one_line(size, says):
    with pytest.raises(ValueError, match=says) as error:
        towers.build(lambda x: towers.sync_bn(x, group_size=size), [tf.ones([2, 3])] * 4, oracles.CPUS[:4], training=True)
    assert "\n" not in str(error.value)


def test_groups_without_synchronisation_are_refused():
    with pytest.raises(ValueError, match="wanted sync=True"):
        towers.layers.batch_normalization(tf.ones([2, 3]), group_size=2)


def test_inference_runs_on_any_number_of_towers():
    y, = towers.build(lambda x: towers.sync_bn(x, group_size=8), [tf.ones([2, 3])], oracles.CPUS[:1])
    np.testing.assert_allclose(oracles.evaluate(y), np.full([2, 3], (1 + 1e-3) ** -.5), rtol=1e-6)


def test_slims_layer_takes_groups():
    parts = [part + i for i, part in enumerate(batches([(2, 3)] * 4))]
    ys = towers.build(lambda x: towers.slim.batch_norm(x, group_size=2), [tf.constant(part) for part in parts],
                      oracles.CPUS[:4], training=True)
    groups, _, _ = by_groups(parts, parts, 2, 1, 0)
    np.testing.assert_allclose(oracles.evaluate(ys), [y for group in groups for y in group.y], atol=1e-10)
