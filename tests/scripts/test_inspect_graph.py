"""inspect_graph.py as a user runs it."""

import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

from tests.scripts.command import failed, run, succeeded  # noqa: E402


def test_the_graph_of_a_run_is_sound(trained):
    output = succeeded(run("inspect_graph", trained[0]))
    lines = {line[:24].strip(): line[24:].strip() for line in output.splitlines()}
    assert lines["problems"] == "none"
    assert int(lines["sync layers"]) == int(lines["update ops"]) // 2 > 10
    assert "CPU:0" in lines["tower_0"] and "CPU:1" in lines["tower_1"]


def test_what_is_wrong_is_listed_and_fails(tmp_path):
    with tf.Graph().as_default():
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), use_resource=True)
        tf.add_to_collection(tf.GraphKeys.TRAIN_OP, tf.group(tf.assign_add(total, 1.).op, tf.assign_add(total, 2.).op))
        tf.train.export_meta_graph(str(tmp_path / "twice.meta"))
    code, output, _ = run("inspect_graph", str(tmp_path / "twice.meta"))
    assert code == 1
    assert "variable total is written 2 times in one step" in output


@pytest.mark.parametrize("name", ["", "nothing.meta"])
def test_no_graph_there(tmp_path, name):
    assert "give the model_dir of a run, or a .meta file" in failed(run("inspect_graph", str(tmp_path / name)))


def test_a_file_that_is_no_graph_is_named(tmp_path):
    for number, content in enumerate((b"node { name: 'x' }", b"\xff\xfe\x00", b"")):
        path = tmp_path / "graph{}.pbtxt".format(number)
        path.write_bytes(content)
        told = failed(run("inspect_graph", str(path)))
        assert str(path) in told and "give the model_dir of a run, or a .meta file" in told
