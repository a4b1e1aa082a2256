"""build: runs the model a tower at a time, in order; errors name what is wrong, and no thread stays behind."""

import traceback

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS


def test_inputs_reach_the_model_as_positions_keywords_or_one_tensor():
    def positions(*args, **kwargs):
        return args, kwargs

    a, b = tf.constant(1.), tf.constant(2.)
    assert towers.build(positions, [(a, b), [b, a]], CPUS[:2]) == [((a, b), {}), ((b, a), {})]
    assert towers.build(positions, [{"x": a}, {"x": b}], CPUS[:2]) == [((), {"x": a}), ((), {"x": b})]
    results = towers.build(positions, [a, b], CPUS[:2])
    assert results[0][0][0] is a and results[1][0][0] is b and not results[0][1]


def test_current_tower_tells_which_and_how_many():
    def model(_):
        towers.all_sum(1.)  # a pause must not mix them up
        tower = towers.current_tower()
        return tower.index, tower.num_towers, tower.device, tower.training, tower.is_main

    for training in (True, False):
        assert towers.build(model, [tf.zeros([])] * 3, CPUS[1:4], training=training) == [
            (i, 3, "/cpu:%d" % (i + 1), training, i == 0) for i in range(3)]


def test_outside_a_build_there_is_one_tower_that_is_not_training():
    towers.build(lambda x: x, [tf.zeros([])] * 2, CPUS[:2], training=True)
    tower = towers.current_tower()
    assert (tower.index, tower.num_towers, tower.training, tower.is_main) == (0, 1, False, True)


def test_ops_are_named_and_placed_by_tower():
    def model(x):
        y = tf.square(x, name="early")
        y = towers.all_sum(y)
        return tf.sqrt(y, name="late")

    towers.build(model, [tf.ones([2])] * 3, CPUS[1:4], aggregation_device="/cpu:7")
    graph = tf.get_default_graph()
    for i in range(3):
        for name in ("early", "late"):
            op = graph.get_operation_by_name("tower_%d/%s" % (i, name))
            assert op.device.lower().endswith("cpu:%d" % (i + 1))
    adds = [op for op in graph.get_operations() if op.type == "AddN"]
    assert len(adds) == 2  # three towers, pair by pair
    for add in adds:
        assert add.device.lower().endswith("cpu:7") and not add.name.startswith("tower_")


def test_a_device_that_the_model_names_is_kept():
    def model(x):
        with tf.device("/cpu:5"):
            return tf.square(x)

    for y in towers.build(model, [tf.ones([2])] * 2, CPUS[:2]):
        assert y.op.device.lower().endswith("cpu:5")


def run(*layers):
    """A model that runs layers; a tuple of them has one entry a tower."""
    def model(x):
        for layer in layers:
            chosen = layer[towers.current_tower().index] if isinstance(layer, tuple) else layer
            if chosen is not None:
                x = chosen(x)
        return x

    xs = [tf.ones([2, 3]) for _ in range(3)]
    return oracles.within(60, lambda: towers.build(model, xs, CPUS[:3], training=True))


def bn(name):
    return lambda x: towers.sync_bn(x, name=name)


def all_sum(x):
    return towers.all_sum(x)


def scoped_sum(name):
    def layer(x):
        with tf.variable_scope(name):
            return towers.all_sum(x)
    return layer


@pytest.mark.parametrize("layers,names", [
    ([bn("first"), (bn("second"), bn("second"), None)], ["tower 0", "tower 2", "second", "returned"]),
    ([(None, None, scoped_sum("second"))], ["tower 0", "tower 2", "second", "returned"]),
    ([bn("one"), (all_sum, all_sum, scoped_sum("other"))], ["tower 0", "tower 2", "other", "all_sum"]),
    ([(scoped_sum("a"), scoped_sum("b"), scoped_sum("b"))], ["tower 0", "tower 1", "'a'", "'b'"]),
    ([(all_sum, lambda x: towers.all_mean(x), all_sum)], ["tower 0", "tower 1", "all_sum", "all_mean"]),
    ([(all_sum, lambda x: towers.all_sum(tf.cast(x, tf.float64)), all_sum)], ["tower 0", "tower 1"]),
    ([(all_sum, None, None)], ["tower 0", "tower 1", "returned"])])
def test_towers_that_meet_different_layers_are_an_error_naming_both(layers, names):
    with pytest.raises(towers.TowerError) as error:
        run(*layers)
    assert isinstance(error.value, ValueError)
    for name in names:
        assert name in str(error.value), str(error.value)
    assert not oracles.tower_threads()


def test_a_different_number_of_merge_tensors_is_an_error():
    with pytest.raises(towers.TowerError, match="tower 0.*tower 1"):
        run((lambda x: towers.merge(lambda a: a[0], x), lambda x: towers.merge(lambda a, b: a[0], x, x), None))


class Oops(Exception):
    pass


@pytest.mark.parametrize("tower", [0, 1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_exception_reaches_the_caller_with_its_traceback(tower, when):
    def failing_line_of_the_model(x):
        raise Oops("in tower %d" % tower)

    fail = tuple(failing_line_of_the_model if i == tower else None for i in range(3))
    with pytest.raises(Oops, match="in tower %d" % tower) as error:
        run(*([fail, bn("a")] if when == "before" else [bn("a"), fail, bn("b")]))
    assert "failing_line_of_the_model" in "".join(traceback.format_tb(error.tb))
    assert not oracles.tower_threads()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupts_in_a_model_reach_the_caller(kind):
    def interrupted(x):
        raise kind()

    with pytest.raises(kind):
        run(bn("a"), (None, interrupted, None), bn("b"))
    assert not oracles.tower_threads()


def test_an_exception_in_a_merge_function_reaches_the_caller():
    def merge_function(xs):
        raise Oops("merging")

    with pytest.raises(Oops, match="merging") as error:
        run(lambda x: towers.merge(merge_function, x))
    assert "merge_function" in "".join(traceback.format_tb(error.tb))


def test_a_model_that_catches_everything_still_ends():
    """`except Exception` around a layer must not swallow the end of an aborted build."""
    def careless(x):
        try:
            return towers.all_sum(x)
        except Exception:
            return x

    def fails(x):
        raise Oops()

    with pytest.raises(Oops):
        run((careless, careless, fails))
    assert not oracles.tower_threads()


def test_after_a_failed_build_the_graph_can_be_built_in_again():
    graph = tf.get_default_graph()
    tf.add_to_collection(tf.GraphKeys.LOSSES, "mine")
    with pytest.raises(towers.TowerError):
        run(lambda x: (tf.add_to_collection(tf.GraphKeys.LOSSES, "theirs"), x)[1], (all_sum, None, None))
    assert graph.get_collection(tf.GraphKeys.LOSSES) == ["mine"]
    assert towers.current_tower().num_towers == 1
    with tf.control_dependencies(None):
        y = towers.build(lambda x: towers.all_sum(x), [tf.constant(1.), tf.constant(2.)], CPUS[:2])
    assert oracles.evaluate(y) == [3., 3.]


def test_merges_inside_control_flow_are_refused(control_flow):
    def in_cond(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: towers.sync_bn(x, name="inner"), lambda: x)

    def in_loop(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, towers.all_sum(y)), [0, x])[1]

    for layer in (in_cond, in_loop):
        with tf.Graph().as_default(), pytest.raises(towers.TowerError, match=r"tower 0 is inside tf\.cond, tf\.while_loop"):
            run(layer)


def test_merges_in_functions_and_other_graphs_are_refused():
    def in_function(x):
        return tf.function(lambda y: towers.all_sum(y), autograph=False)(x)

    def in_another_graph(x):
        with tf.Graph().as_default():
            return towers.all_sum(tf.ones([2]))

    for layer in (in_function, in_another_graph):
        with pytest.raises(towers.TowerError, match="tf.function or another graph"):
            run(layer)


def test_control_flow_without_merges_works_in_a_model(control_flow):
    def model(x):
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: 2. * x, lambda: -x)
        x = towers.all_sum(x)
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y + 1.), [0, x])[1]

    y = towers.build(model, [tf.constant([1.]), tf.constant([-5.])], CPUS[:2])
    assert np.ravel(oracles.evaluate(y)).tolist() == [10., 10.]


def test_builds_inside_builds_and_control_flow_are_refused(control_flow):
    def nested(x):
        return towers.build(lambda y: y, [x], CPUS[:1])

    with pytest.raises(ValueError, match="inside tower 0 of another build"):
        run(nested)
    with pytest.raises(ValueError, match="inside tf.cond"):
        tf.cond(tf.constant(True), lambda: towers.build(tf.square, [tf.ones([])], CPUS[:1])[0], lambda: tf.ones([]))


@pytest.mark.parametrize("arguments,match", [
    (dict(devices=[]), "devices is empty"), (dict(devices=CPUS[:3]), "tower_inputs has 2.*devices has 3"),
    (dict(model_fn=None), "model_fn"), (dict(devices=["/cpu:0", "nowhere"]), None), (dict(cluster="x"), "cluster")])
def test_wrong_arguments_are_refused(arguments, match):
    full = dict(dict(model_fn=tf.square, tower_inputs=[tf.ones([])] * 2, devices=CPUS[:2]), **arguments)
    with pytest.raises(ValueError, match=match):
        towers.build(**full)
    assert not oracles.tower_threads()


def test_towers_run_one_at_a_time_in_order():
    order, running = [], []

    def model(x):
        index = towers.current_tower().index
        for stage in range(3):
            running.append(index)
            order.append((stage, index))
            assert running == [index]
            running.pop()
            x = towers.all_sum(x)
        return x

    towers.build(model, [tf.ones([])] * 3, CPUS[:3])
    assert order == [(stage, index) for stage in range(3) for index in range(3)]
