"""CIFAR-10's binary files: what is read is what was written, crops are crops, and the sequence can be taken up anywhere."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from inputs import cifar10
from inputs.examples import DataError
from tests.inputs import cifar10_files

UNCHANGED = dict(pad=0, flip_probability=0.0, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, pictures and labels by split): 5 x 8 to train on, 7 to test on."""
    return cifar10_files.write(tmp_path_factory.mktemp("cifar"), batch=8, test=7)


def batches(root, number, *args, **kwargs):
    with tf.Graph().as_default():
        dataset = cifar10.train_dataset(cifar10.open_split(root, "train"), *args, **kwargs)
        element = tf.data.make_one_shot_iterator(dataset).get_next()
        with tf.Session() as session:
            return [session.run(element) for _ in range(number)]


def test_an_epoch_holds_every_picture_once_with_its_label(made):
    root, data = made
    images, labels = data["train"]
    got = batches(root, 5, 8, 0, **UNCHANGED)
    index = np.concatenate([batch["index"] for batch in got])
    assert sorted(index) == list(range(40)) and list(index) != list(range(40))
    for batch in got:
        np.testing.assert_array_equal(batch["image"], images[batch["index"]])
        np.testing.assert_array_equal(batch["label"], labels[batch["index"]])
        assert batch["image"].dtype == np.float32 and batch["label"].dtype == np.int32


def test_a_training_picture_is_a_crop_of_the_padded_one_or_its_mirror_image(made):
    root, data = made
    mean, std = np.array([125.3, 123.0, 113.9]), np.array([63.0, 62.1, 66.7])
    normal = np.pad((data["train"][0] - mean) / std, [(0, 0), (4, 4), (4, 4), (0, 0)])
    places, flips = [], 0
    for batch in batches(root, 12, 40, 3):
        for image, index in zip(batch["image"], batch["index"]):
            found = [(top, left, flip) for flip in (False, True) for top in range(9) for left in range(9)
                     if np.abs(normal[index, top, left:left + 32][::-1 if flip else 1] - image[0]).max() < 1e-4]
            matching = [f for f in found if np.abs(
                normal[index, f[0]:f[0] + 32, f[1]:f[1] + 32][:, ::-1 if f[2] else 1] - image).max() < 1e-4]
            assert len(matching) == 1
            places.append(matching[0][:2])
            flips += matching[0][2]
    counts = [np.bincount(axis, minlength=9) for axis in np.transpose(places)]
    for count in counts:  # 480 draws of 9 places each: chi-squared with 8 degrees of freedom
        assert ((count - 480 / 9) ** 2 / (480 / 9)).sum() < 31.8  # 0.01 %
    assert abs(flips - 240) < 4.3 * np.sqrt(480) / 2


@pytest.mark.parametrize("start", [1, 4, 11])
def test_any_start_step_continues_to_the_bit_whatever_the_parallelism(made, start):
    whole, later = batches(made[0], 14, 6, 5), batches(made[0], 14 - start, 6, 5, start, num_parallel=3)
    for a, b in zip(whole[start:], later):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert any((a["image"] != b["image"]).any() for a, b in zip(whole, batches(made[0], 2, 6, 6)))


def test_evaluation_gives_every_picture_once_in_order(made):
    root, data = made
    with tf.Graph().as_default():
        element = tf.data.make_one_shot_iterator(
            cifar10.eval_dataset(cifar10.open_split(root, "test"), 4, UNCHANGED["mean"], UNCHANGED["std"])).get_next()
        with tf.Session() as session:
            got = [session.run(element) for _ in range(2)]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)
    assert [len(batch["label"]) for batch in got] == [4, 3]
    np.testing.assert_array_equal(np.concatenate([batch["image"] for batch in got]), data["test"][0])
    np.testing.assert_array_equal(np.concatenate([batch["label"] for batch in got]), data["test"][1])


def test_the_folder_that_the_archive_unpacks_to_is_found(made, tmp_path):
    shutil.copytree(made[0], str(tmp_path / "cifar-10-batches-bin"))
    split = cifar10.open_split(tmp_path, "train")
    assert split.number == 40 and all("cifar-10-batches-bin" in path for path in split.paths)


def test_what_is_wrong_with_files_is_named_in_one_line(made, tmp_path):
    def broken(name, change):
        root = str(tmp_path / name)
        shutil.copytree(made[0], root)
        change(root)
        with pytest.raises(DataError) as caught:
            cifar10.open_split(root, "train")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def rewrite(file, change):
        def action(root):
            path = os.path.join(root, file)
            with open(path, "rb") as source:
                content = bytearray(source.read())
            with open(path, "wb") as target:
                target.write(change(content))
        return action

    def label_12(content):
        content[2 * 3073] = 12
        return content

    assert "data_batch_3.bin" in broken("missing", lambda root: os.remove(os.path.join(root, "data_batch_3.bin")))
    cut = broken("cut", rewrite("data_batch_2.bin", lambda content: content[:-10]))
    assert "data_batch_2.bin has {} bytes".format(8 * 3073 - 10) in cut and "3073" in cut
    assert "data_batch_5.bin has 0 bytes" in broken("empty", rewrite("data_batch_5.bin", lambda content: b""))
    label = broken("label", rewrite("data_batch_4.bin", label_12))
    assert "data_batch_4.bin" in label and "record 2 is 12" in label

    def python_version(root):
        for k in range(1, 6):
            os.rename(os.path.join(root, "data_batch_%d.bin" % k), os.path.join(root, "data_batch_%d" % k))

    assert "cifar-10-binary" in broken("python", python_version)
    for root, split, words in ((tmp_path / "nowhere", "train", "nowhere"), (made[0], "val", "'val'")):
        with pytest.raises(DataError, match=words):
            cifar10.open_split(root, split)


def test_wrong_values_are_named(made):
    for kwargs, words in ((dict(batch_size=0), "batch_size is 0"), (dict(pad=-1), "input.pad is -1"),
                          (dict(flip_probability=1.5), "flip_probability"), (dict(start_step=-1), "start_step")):
        with pytest.raises(ValueError, match=words):
            batches(made[0], 1, **dict(dict(batch_size=1, seed=0), **kwargs))
