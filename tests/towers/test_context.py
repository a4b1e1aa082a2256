"""What the caller holds open around `build` is in force inside every tower; what a tower changes stays in it."""

import contextvars
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import towers
from tests.towers import oracles

CPUS = oracles.CPUS
XS = 3


def build(model, num_towers=3, **kwargs):
    return towers.build(model, [tf.ones([2, XS]) * (i + 1.) for i in range(num_towers)], CPUS[:num_towers], **kwargs)


def test_the_callers_name_scope():
    with tf.name_scope("outer"):
        results = build(lambda x: towers.all_sum(tf.square(x, name="y")) * 2.)
        after = tf.constant(1., name="after")
    assert [y.op.name.split("/")[:2] for y in results] == [["outer", "tower_%d" % i] for i in range(3)]
    assert after.op.name == "outer/after"
    assert all(op.name.startswith("outer") for op in tf.get_default_graph().get_operations() if op.type == "AddN")


def test_the_callers_variable_scope_with_regularizer_and_initializer():
    with tf.variable_scope("outer", initializer=tf.constant_initializer(3.), regularizer=lambda w: tf.reduce_sum(w)):
        values = build(lambda x: tf.get_variable("w", [XS]) * 1.)
    assert [v.op.name for v in tf.global_variables()] == ["outer/w"]
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    assert len(losses) == 1
    values, loss = oracles.evaluate([values, losses[0]])
    assert loss == 9. and all((value == 3.).all() for value in values)


def test_the_callers_reuse_scope():
    with tf.variable_scope("model"):
        first = tf.get_variable("w", [XS])
    with tf.variable_scope("model", reuse=True):
        build(lambda x: tf.get_variable("w", [XS]) * x)
        with pytest.raises(ValueError, match="model/other"):
            build(lambda x: tf.get_variable("other", [XS]) * x)
    assert tf.global_variables() == [first]


def test_the_callers_custom_getter():
    names = []

    def doubled(getter, name, *args, **kwargs):
        names.append(name)
        return getter(name, *args, **kwargs) * 2.

    with tf.variable_scope("model", custom_getter=doubled):
        values = build(lambda x: tf.get_variable("w", [], initializer=tf.constant_initializer(4.)) + 0.)
    assert names == ["model/w"] * 3
    assert oracles.evaluate(values) == [8.] * 3


def test_the_callers_control_dependencies():
    with tf.control_dependencies([tf.no_op(name="gate")]):
        results = build(lambda x: tf.square(towers.all_sum(x)))
    for y in results:
        assert "gate" in [op.name for op in oracles.ancestors(y.op)]
        assert "gate" in [op.name for op in y.op.control_inputs] or any(
            "gate" in [op.name for op in before.control_inputs] for before in oracles.ancestors(y.op))


def test_the_callers_device_function():
    seen = []

    def on_variables(op):
        seen.append(op.name)
        return "/cpu:6" if op.type == "VarHandleOp" else op.device

    with tf.device(on_variables):
        build(lambda x: tf.get_variable("w", [XS]) * x)
    variable, = tf.global_variables()
    assert variable.handle.op.device.lower().endswith("cpu:6")
    assert any(name.startswith("tower_2/") for name in seen)


def test_variables_live_on_the_aggregation_device():
    build(lambda x: tf.get_variable("w", [XS]) * x, aggregation_device="/cpu:4")
    variable, = tf.global_variables()
    assert [op.device.lower()[-5:] for op in (variable.handle.op, variable.initializer)] == ["cpu:4"] * 2


def test_the_callers_gradient_override():
    name = "TestContextTripled%d" % id(object())
    tf.RegisterGradient(name)(lambda op, dy: 3. * dy)
    with tf.get_default_graph().gradient_override_map({"Square": name}):
        step = towers.build_train_step(
            lambda x: tf.reduce_sum(tf.square(tf.get_variable("w", [], initializer=tf.constant_initializer(5.)) * x)),
            [tf.constant(1.), tf.constant(1.)], tf.train.GradientDescentOptimizer(1.), CPUS[:2])
    assert oracles.evaluate(step.grads_and_vars[0][0]) == 3.


def test_a_models_gradient_override_does_not_leak_to_other_towers():
    name = "TestContextLeak%d" % id(object())
    tf.RegisterGradient(name)(lambda op, dy: 3. * dy)

    def model(x):
        if towers.current_tower().index == 0:
            with tf.get_default_graph().gradient_override_map({"Square": name}):
                towers.all_sum(x)
                y = tf.square(x)
        else:
            y = tf.square(x)  # while tower 0 is paused inside its `with`
            towers.all_sum(x)
        return tf.gradients(y, x)[0]

    values = oracles.evaluate(towers.build(model, [tf.constant(5.)] * 2, CPUS[:2]))
    assert values == [3., 10.]
    assert not tf.get_default_graph()._gradient_override_map


def test_the_callers_variable_creator():
    made = []

    def creator(next_creator, **kwargs):
        made.append(kwargs["name"])
        return next_creator(**kwargs)

    with tf.variable_creator_scope(creator):
        build(lambda x: tf.get_variable("w", [XS]) * x)
    assert made == ["w"]


def test_the_callers_context_variables_and_their_changes_stay_in_the_tower():
    variable = contextvars.ContextVar("test", default="none")
    variable.set("caller")
    seen = []

    def model(x):
        seen.append(variable.get())
        variable.set("tower")
        return towers.all_sum(x)

    build(model)
    assert seen == ["caller"] * 3 and variable.get() == "caller"


def test_the_callers_default_session():
    with oracles.session() as sess:
        assert build(lambda x: tf.get_default_session() is sess) == [True] * 3


@pytest.mark.parametrize("kind", ["name_scope", "device", "control_dependencies", "variable_scope"])
def test_what_a_model_holds_open_over_a_pause_is_its_own(kind):
    """Tower 0 pauses inside a `with`, the others do not hold it, and after the pause each finds its own again."""
    def model(x):
        index = towers.current_tower().index
        scopes = {
            "name_scope": lambda: tf.name_scope("own"), "device": lambda: tf.device("/cpu:7"),
            "control_dependencies": lambda: tf.control_dependencies([tf.no_op(name="mine")]),
            "variable_scope": lambda: tf.variable_scope("own", auxiliary_name_scope=False)}
        before = tf.square(x)
        with scopes[kind]():
            y = towers.all_sum(x)
            inside = tf.square(y)
        after = tf.square(y)
        return index, before, inside, after

    for index, before, inside, after in build(model):
        scope = "tower_%d/" % index
        assert before.op.name.startswith(scope) and after.op.name.startswith(scope)
        if kind == "name_scope":
            assert inside.op.name.startswith(scope + "own/") and "own" not in after.op.name
        if kind == "device":
            assert inside.op.device.lower().endswith("cpu:7") and after.op.device.lower().endswith("cpu:%d" % index)
        if kind == "control_dependencies":
            assert [op.name for op in inside.op.control_inputs] in ([], [scope + "mine"])
            assert not after.op.control_inputs


def test_slims_arg_scope_stack_is_each_towers_own(monkeypatch):
    """A stand-in for slim: a list in the module, that its arg_scope pushes to and pops from."""
    slim = types.ModuleType("tf_slim.ops.arg_scope")
    slim._ARGSTACK = [{}]
    monkeypatch.setitem(sys.modules, "tf_slim.ops.arg_scope", slim)
    seen = []

    def model(x):
        index = towers.current_tower().index
        slim._ARGSTACK.append({"tower": index})
        x = towers.all_sum(x)
        seen.append([dict(entry) for entry in slim._ARGSTACK])
        if index != 1:  # which leaks what it pushed
            slim._ARGSTACK.pop()
        return towers.all_sum(x)

    slim._ARGSTACK.append({"caller": True})
    build(model)
    assert seen == [[{}, {"caller": True}, {"tower": i}] for i in range(3)]
    assert slim._ARGSTACK == [{}, {"caller": True}]


def test_losses_and_update_ops_show_a_towers_own_and_come_together_after():
    tf.add_to_collection(tf.GraphKeys.LOSSES, "before")
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, "before")

    def model(x):
        index = towers.current_tower().index
        tf.losses.add_loss(tf.reduce_sum(x))
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.no_op(name="update"))
        x = towers.all_sum(x)
        tf.losses.add_loss(tf.reduce_mean(x))
        found = tf.get_collection(tf.GraphKeys.LOSSES), tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert all(op.name.startswith("tower_%d/" % index) for entries in found for op in
                   [getattr(entry, "op", entry) for entry in entries])
        return [len(entries) for entries in found]

    assert build(model) == [[2, 1]] * 3
    losses, updates = tf.get_collection(tf.GraphKeys.LOSSES), tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert losses[0] == updates[0] == "before" and len(losses) == 7 and len(updates) == 4


def test_summaries_are_those_of_tower_zero_and_the_same_for_any_number():
    tags = []
    for num_towers in (1, 3):
        tf.reset_default_graph()
        build(lambda x: tf.summary.scalar("mean", tf.reduce_mean(towers.sync_bn(x, training=True))), num_towers)
        tags.append([summary.name for summary in tf.get_collection(tf.GraphKeys.SUMMARIES)])
    assert tags[0] == tags[1] and len(tags[0]) == 1 and tags[0][0].startswith("tower_0/")


def test_a_collection_of_the_users_own_gets_the_entries_of_all_towers():
    build(lambda x: tf.add_to_collection("activations", tf.square(x)))
    assert len(tf.get_collection("activations")) == 3


def test_automatic_names_restart_in_a_second_build_and_continue_the_callers():
    with tf.variable_scope("outer"):
        towers.layers.dense(tf.ones([2, XS]), 2)
        for reuse in (False, True):
            with tf.variable_scope(tf.get_variable_scope(), reuse=reuse):
                build(lambda x: towers.layers.dense(towers.layers.dense(x, 2), 2))
    names = [v.op.name for v in tf.global_variables() if "kernel" in v.name]
    assert names == ["outer/dense/kernel", "outer/dense_1/kernel", "outer/dense_2/kernel"]


def test_seeds_of_the_models_own_random_ops_are_left_as_they_are():
    tf.set_random_seed(1)
    draws = oracles.evaluate(build(lambda x: tf.random_uniform([4], seed=5)))
    np.testing.assert_array_equal(draws[0], draws[1])
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        np.testing.assert_array_equal(oracles.evaluate(tf.random_uniform([4], seed=5)), draws[0])
