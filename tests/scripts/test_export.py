"""What export.py writes loads in plain TensorFlow, predicts as the trained network does, and is never half there."""

import glob
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

import tensorflow.compat.v1 as tf  # noqa: E402

import towers  # noqa: E402
from configs import synthetic_pspnet  # noqa: E402
from inputs import labels  # noqa: E402
from scripts import configuration, export_measurement, exporting, network  # noqa: E402
from tests.scripts.command import failed, run, succeeded  # noqa: E402

# Nothing of this repository, no TensorFlow 1: what a user of the SavedModel has.
PLAIN = """
import sys
import numpy as np
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
images = np.load(sys.argv[2])
found = model.signatures["serving_default"](images=tf.constant(images))
same = model.signatures["float_images"](images=tf.constant(images.astype(np.float32)))
assert np.array_equal(same["labels"], found["labels"]) and np.array_equal(same["probabilities"], found["probabilities"])
assert not [name for name in sys.modules if name.split(".")[0] in ("towers", "models", "scripts", "inputs")]
np.savez(sys.argv[3], labels=found["labels"].numpy(), probabilities=found["probabilities"].numpy())
"""


def pictures(*size, count=2):
    return np.random.RandomState(1).randint(0, 256, (count,) + size + (3,)).astype(np.uint8)


def small():
    config = synthetic_pspnet.get_config()
    config.model.update(width=8, pyramid_channels=8, head_channels=16)
    return config


def windows(config, crop, values, images):
    """The probabilities of the unfolded network, by the sliding windows of predict.py: one window, no flip."""
    config = config.copy_and_resolve_references()
    config.eval.update(crop_size=crop, flip=False, scales=(1.0,))
    trained = network.TrainedNetwork(config, towers.tower_devices(1, "cpu"))
    trained.load(values)
    return np.stack(list(trained.predictor.predict_all(trained.session, images)))


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """What export.py wrote of the trained run, and printed."""
    output = str(tmp_path_factory.mktemp("exported") / "model")
    return output, succeeded(run("export", "--model_dir=" + trained[0], "--output=" + output))


def test_plain_tensorflow_loads_it_and_predicts_what_predict_does(exported, trained, tmp_path):
    output, printed = exported
    images = pictures(48, 60)
    np.save(str(tmp_path / "images.npy"), images)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", PLAIN, output, str(tmp_path / "images.npy"), str(tmp_path / "found.npz")],
        env=environment, cwd=str(tmp_path), stderr=subprocess.PIPE, universal_newlines=True)
    assert result.returncode == 0, result.stderr[-3000:]
    found = np.load(str(tmp_path / "found.npz"))
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(trained[0]))
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    expected = windows(configuration.read(trained[0]), (49, 65), values, images)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(found["labels"], found["probabilities"].argmax(axis=-1))
    assert found["labels"].dtype == np.int32 and found["probabilities"].dtype == np.float32
    assert re.search(r"(\d+) batch norms folded, 0 left", printed).group(1) == "17"
    with open(os.path.join(output, "assets.extra", "model.json")) as file:
        description = json.load(file)
    assert description["class_names"] == list(labels.CLASS_NAMES) and description["step"] == 4
    assert description["label_file_values"][13] == 26  # a car


@pytest.mark.parametrize("case, images, crop", [
    ("any size", (50, 70), (57, 73)),
    ("one size", (50, 70), (57, 73)),
    ("no align corners", (50, 70), (56, 72)),
    ("plain pyramid", (41, 90), (48, 96)),
    ("half size", (100, 131), (57, 73)),
    ("one long side", (50, 100), (25, 41)),
])
def test_random_statistics_and_sizes_predict_as_unfolded(tmp_path, case, images, crop):
    config = small()
    size = images if case == "one size" else None
    if case == "no align corners":
        config.model.align_corners = False
    if case == "plain pyramid":
        config.model.update(pyramid="average", align_corners=False)
        size = images
    if case == "half size":
        config.input.resize = 0.5
    if case == "one long side":
        config.eval.long_side = 40
    subject = exporting.WholeImageNetwork(config, size)
    values = export_measurement.drawn_weights(subject.variables)  # gammas and moving statistics too
    subject.load(values)
    path = str(tmp_path / "model")
    exporting.write(path, subject.frozen().graph_def, {}, check=lambda _: None)
    loaded = exporting.Loaded(path)
    batch = pictures(*images)
    found = loaded.run("probabilities", batch)
    np.testing.assert_allclose(found, windows(config, crop, values, batch), rtol=0, atol=1e-4)
    assert found.std() > 0.05  # no uniform guess, for which any network would do
    kinds = {op.type for op in loaded.graph.get_operations()}
    assert not kinds & {"FusedBatchNormV3", "Rsqrt", "VarHandleOp", "VariableV2", "ReadVariableOp"}


def test_what_differs_too_much_is_not_written_and_what_was_there_stays(tmp_path):
    subject = exporting.WholeImageNetwork(small())
    subject.load(export_measurement.drawn_weights(subject.variables))
    graph_def, path = subject.frozen().graph_def, str(tmp_path / "model")

    def refuse(partial):
        assert os.path.exists(os.path.join(partial, "saved_model.pb"))
        raise ValueError("it differs")

    with pytest.raises(ValueError, match="it differs"):
        exporting.write(path, graph_def, {}, refuse)
    assert os.listdir(str(tmp_path)) == []
    exporting.write(path, graph_def, {"number": 1}, check=lambda _: None)
    with pytest.raises(ValueError, match="it differs"):
        exporting.write(path, graph_def, {"number": 2}, refuse)
    with open(os.path.join(path, "assets.extra", "model.json")) as file:
        assert json.load(file) == {"number": 1}
    exporting.write(path, graph_def, {"number": 3}, check=lambda _: None)
    with open(os.path.join(path, "assets.extra", "model.json")) as file:
        assert json.load(file) == {"number": 3}
    assert os.listdir(str(tmp_path)) == ["model"]


def test_a_folded_network_is_smaller_and_the_measurement_says_so(trained):
    output = succeeded(run("export", "--measure", "--model_dir=" + trained[0], "--image_size=48,60", "--rounds=2"))
    rows = {line[:15].strip(): line[15:].split() for line in output.splitlines() if line[:15].strip() in (
        "with variables", "frozen", "folded")}
    ops, variables, megabytes = ([float(rows[name][k]) for name in ("with variables", "frozen", "folded")] for k in range(3))
    assert ops[2] < 0.7 * ops[0] and variables[0] > 80 and variables[1:] == [0, 0] and megabytes[2] < megabytes[0]
    assert float(rows["folded"][7]) < 1e-4
    assert not glob.glob(os.path.join(trained[0], "saved_model*"))


def test_wrong_use_is_one_line_and_writes_nothing(exported, trained):
    output = exported[0]
    assert "--overwrite" in failed(run("export", "--model_dir=" + trained[0], "--output=" + output))
    assert not glob.glob(os.path.join(trained[0], "saved_model*"))
