"""Every line of `tables.py`: bad input ends in one clear line with its exit code, and nothing is written; what is odd but
sound is read, as PIL reads it. The scripts run as a user runs them, see `fork_server.py`.
"""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from PIL import Image

from inputs import ade20k, cityscapes, decoding, photographs, pipeline
from tests.bad_input import layouts, tables
from tests.inputs import cifar10_files
from tests.scripts import command

ADE20K = os.path.join(command.ROOT, "configs", "ade20k_pspnet50.py")
BASE = "from configs import cityscapes_pspnet50\ndef get_config():\n    c = cityscapes_pspnet50.get_config()\n"


def rows(table):
    return pytest.mark.parametrize("row", table, ids=[row[0] for row in table])


def refused(result, message, code=1):
    """One line on standard error, with a part of the message (or one of several, parted by |), and the exit code."""
    found, output, errors = result
    told = [line for line in errors.splitlines() if "No GPU is visible" not in line]
    assert found == code, (found, output[-500:], errors[-2000:])
    assert len(told) == 1 and told[0].startswith("error: "), errors[-2000:]
    assert any(part in told[0] for part in message.split("|")), told[0]


def train(run, root, tmp_path, *arguments):
    """train.py on a data set; nothing may be written."""
    given = [] if any("--model_dir" in argument for argument in arguments) else ["--model_dir={}".format(tmp_path / "run")]
    result = run(*command.train("--data_dir=" + root, *given, *arguments))
    assert not (tmp_path / "run").exists()
    return result


@pytest.fixture(scope="module")
def read_in_graph():
    """`decoding.read_image` as a function of a path."""
    graph = tf.Graph()
    with graph.as_default():
        path = tf.placeholder(tf.string, [])
        image = decoding.read_image(path)
    session = tf.Session(graph=graph)
    yield lambda name: session.run(image, {path: os.fsencode(name)})
    session.close()


def as_pil_reads(path):
    with Image.open(path) as image:
        values = np.asarray(image)
        if values.dtype == np.uint16:
            return np.repeat((values >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
        return np.asarray(image.convert("RGB"))


@pytest.fixture
def copy(streets, tmp_path):
    return shutil.copytree(streets, str(tmp_path / "data"))


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


@rows(tables.IMAGES)
def test_an_image_to_train_on(row, run, copy, tmp_path, read_in_graph):
    _, content, message, _ = row
    path = write(os.path.join(copy, layouts.TRAIN, layouts.IMAGE), content)
    if message:
        return refused(train(run, copy, tmp_path), message)
    assert cityscapes.check_examples(cityscapes.list_examples(copy, "train")) == {(48, 64)}
    np.testing.assert_array_equal(read_in_graph(path), as_pil_reads(path))


@rows(tables.IMAGES)
def test_an_image_to_predict(row, run, tmp_path):
    _, content, _, message = row
    path = write(str(tmp_path / "image.png"), content)
    if message:
        refused(run("predict", "--model_dir=unused", "--output_dir={}".format(tmp_path / "out"), path), message)
        assert not (tmp_path / "out").exists()
    else:
        np.testing.assert_array_equal(photographs.load_image(path, upright=False), as_pil_reads(path))


@rows(tables.JPEGS)
def test_an_image_in_the_layout_of_ade20k(row, run, tmp_path, read_in_graph):
    _, content, message = row
    root = str(tmp_path / "ade20k")
    for split in ("training", "validation"):
        for kind in ("images", "annotations"):
            os.makedirs(os.path.join(root, kind, split))
        write(os.path.join(root, "images", split, "a.jpg"), tables.JPEG)
        Image.fromarray(np.full([48, 64], 3, np.uint8)).save(os.path.join(root, "annotations", split, "a.png"))
    path = write(os.path.join(root, "images", "training", "a.jpg"), content)
    if message:
        return refused(train(run, root, tmp_path, "--config=" + ADE20K), message)
    assert cityscapes.check_examples(ade20k.list_examples(root, "training")) == {(48, 64)}
    np.testing.assert_allclose(read_in_graph(path).astype(int), as_pil_reads(path), atol=8)


@rows(tables.LABELS)
def test_a_label(row, run, copy, tmp_path):
    _, content, message = row
    example = cityscapes.list_examples(copy, "train")[1]
    write(example.label_path, content)
    if message:
        refused(train(run, copy, tmp_path), message)
    else:
        cityscapes.check_examples([example])


@pytest.mark.long
@rows([row for row in tables.LABELS if row[2]])
def test_a_label_to_score_on(row, run, copy, trained):
    _, content, message = row
    write(cityscapes.list_examples(copy, "train")[1].label_path, content)
    refused(run("evaluate", "--model_dir=" + trained, "--data_dir=" + copy, "--split=train"), message)


@rows(tables.LAYOUTS)
def test_the_folders_of_a_data_set(row, run, copy, tmp_path):
    _, alter, message = row
    root = getattr(layouts, alter)(copy)
    if message:
        return refused(train(run, root, tmp_path), message)
    examples = cityscapes.list_examples(root, "train")
    assert len(examples) == 3 and cityscapes.check_examples(examples) == {(48, 64)}
    element = tf.data.make_one_shot_iterator(pipeline.eval_dataset(examples)).get_next()
    with tf.Session() as session:
        for example in examples:
            np.testing.assert_array_equal(session.run(element)["image"], as_pil_reads(example.image_path))


@rows(tables.CIFAR)
def test_a_file_of_cifar10(row, run, tmp_path):
    _, content, message = row
    root, _ = cifar10_files.write(tmp_path / "pictures", batch=4, test=4)
    path = os.path.join(root, "data_batch_1.bin")
    os.remove(path) if content is None else write(path, content)
    folder = tmp_path / "run"
    refused(run("train_classifier", "--device_type=cpu", "--data_dir=" + root, "--model_dir={}".format(folder)), message)
    assert not folder.exists()


@rows(tables.FLAGS)
def test_the_command_line(row, run, streets, tmp_path):
    _, arguments, message, code = row
    arguments = arguments.replace("{file}", __file__).replace("{tmp}", str(tmp_path)).split(" --")
    arguments = [arguments[0]] + ["--" + argument for argument in arguments[1:]]
    refused(train(run, streets, tmp_path, *arguments), message, code)


@rows(tables.CONFIGURATIONS)
def test_the_file_of_a_configuration(row, run, streets, tmp_path):
    _, text, message, code = row
    text = text if isinstance(text, bytes) else text.replace("{base}", BASE).encode()
    path = write(str(tmp_path / "settings.py"), text)
    folder = "--model_dir={}".format(tmp_path / "run")
    refused(run("train", "--config=" + path, "--data_dir=" + streets, folder), message, code)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@rows(tables.RUNS)
def test_the_folder_of_a_run(row, run, streets, trained, tmp_path):
    _, spoil, message, script = row
    folder = shutil.copytree(trained, str(tmp_path / "run"))
    spoil(folder)
    before = sorted(os.listdir(folder))
    data = "--data_dir=" + streets
    if script == "train":
        result = run(*command.train(data, "--model_dir=" + folder, "--max_steps=2"))
    else:
        result = run("evaluate", "--device_type=cpu", data, "--model_dir=" + folder)
    refused(result, message, 2 if message.startswith("config.") else 1)
    assert sorted(os.listdir(folder)) == before


@pytest.mark.long
@rows(tables.WEIGHTS)
def test_a_file_of_weights(row, run, tmp_path):
    _, content, message = row
    path = write(str(tmp_path / "weights"), content)
    before = sorted(os.listdir(str(tmp_path)))
    refused(run("import_weights", "--weights=" + path, "--format=slim", "--output={}".format(tmp_path / "out"),
                "--config.model.stem=7x7"), message)
    assert sorted(os.listdir(str(tmp_path))) == before  # nothing written, and no trap sprung beside it
    assert not os.path.exists("trap-was-sprung")
