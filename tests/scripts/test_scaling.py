"""The model of SCALING.md: its formulas against simulated messages, its counts against shapes added up by hand."""

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from scripts import scaling, scaling_model  # noqa: E402
from scripts.scaling_model import Fabric, Traffic  # noqa: E402

FABRIC = Fabric("any", 3., 2., ("ring", "halving", "tree"))


def simulated(p, size, rounds):
    """Seconds until all of p workers hold the sum, each round a list of (from, to, bytes) messages that go at once."""
    clock = [0.] * p
    for messages in rounds:
        arrival = list(clock)
        for source, target, part in messages:
            arrival[target] = max(arrival[target], clock[source] + FABRIC.latency + part / FABRIC.bandwidth)
            arrival[source] = max(arrival[source], clock[source] + FABRIC.latency + part / FABRIC.bandwidth)
        clock = arrival
    return max(clock)


@pytest.mark.parametrize("p", [2, 4, 8, 16])
def test_a_sum_takes_what_its_messages_take(p):
    size = 640.
    ring = [[(i, (i + 1) % p, size / p) for i in range(p)]] * (2 * (p - 1))
    distances = [2 ** k for k in range(p.bit_length() - 1)]
    halving = [[(i, i ^ d, size / (2 * p) * 2 * d) for i in range(p)] for d in reversed(distances)]
    up = [[(i + d, i, size) for i in range(0, p, 2 * d)] for d in distances]
    down = [[(i, i + d, size) for i in range(0, p, 2 * d)] for d in reversed(distances)]
    for name, rounds in (("ring", ring), ("halving", halving + halving[::-1]), ("tree", up + down)):
        assert scaling_model.ALGORITHMS[name](p, size, FABRIC) == pytest.approx(simulated(p, size, rounds)), name


def test_the_fastest_algorithm_is_taken_and_nobody_sums_alone():
    assert scaling_model.sums(1, (5, 100), FABRIC) == scaling_model.sums(8, (0, 0), FABRIC) == 0
    assert scaling_model.sums(8, (1, 0.), FABRIC) == pytest.approx(6 * 3)
    assert scaling_model.sums(8, (1, 0.), FABRIC._replace(algorithms=("ring",))) == pytest.approx(14 * 3)
    assert scaling_model.sums(2, (4, 40.), FABRIC) == pytest.approx(4 * (2 * 3 + 10 / 2))


def test_groups_leave_the_gradients_and_one_sum_of_state_to_all_workers():
    traffic = Traffic((10, 1000), (10, 500), (2, 8000), (1, 4))
    whole, grouped, own = (scaling_model.step(64, group, traffic, FABRIC, 1.) for group in (64, 8, 1))
    assert whole.state == 0 and grouped.state == own.state == scaling_model.sums(64, (1, 1000 + 80), FABRIC)
    assert whole.gradients == grouped.gradients == own.gradients
    assert whole.layers == scaling_model.sums(64, (10, 1000), FABRIC) + scaling_model.sums(64, (10, 500), FABRIC)
    assert grouped.layers == scaling_model.sums(8, (10, 1000), FABRIC) + scaling_model.sums(8, (10, 500), FABRIC)
    assert own.layers == own.stragglers == 0
    assert scaling_model.seconds(scaling_model.step(1, 1, traffic, FABRIC, 1., .1)) == pytest.approx(1.)


@pytest.mark.parametrize("p", [2, 5, 64])
def test_waiting_is_for_the_largest_of_normal_numbers(p):
    drawn = np.random.RandomState(0).randn(100_000, p).max(1)
    assert scaling_model.largest_of(p) == pytest.approx(drawn.mean(), abs=.01)


def test_what_is_counted_in_a_graph_is_what_its_shapes_add_up_to():
    def model(x, group_size=None):
        for channels, name in ((4, "one"), (6, "two"), (5, "three")):
            x = towers.layers.conv2d(x, channels, 3, padding="same", use_bias=False, name=name)
            x = tf.nn.relu(towers.sync_bn(x, name=name + "_bn", group_size=group_size))
        return tf.reduce_mean(x)

    def inspected(group_size):
        with tf.Graph().as_default() as graph:
            cluster = towers.Cluster(["localhost:1", "localhost:2"], 0)
            towers.build_train_step(lambda x: model(x, group_size), [tf.ones([2, 5, 5, 3])],
                                    tf.train.MomentumOptimizer(.1, .9), ["/cpu:0"], cluster=cluster)
            return towers.inspect(graph)

    channels, layers = 4 + 6 + 5, 3
    weights = 9 * (3 * 4 + 4 * 6 + 6 * 5) + 2 * channels
    traffic = scaling.traffic_of(inspected(None))
    assert traffic == Traffic((layers, 8 * (layers + 2 * channels)), (layers, 4 * 2 * channels), (1, 4 * weights), (1, 4))
    kinds = {kind.kind: (kind.number, kind.bytes) for kind in inspected(1).collectives}
    assert "sync BN forward" not in kinds and "sync BN backward" not in kinds
    assert kinds["moving statistics"] == (1, traffic.forward[1] + 8 * layers)  # as scaling_model.step has it
    assert "sums over workers        8" in str(inspected(None))
