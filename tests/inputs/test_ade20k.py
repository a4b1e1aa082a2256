"""The layout of the ADE20K challenge: what is found, how values map, and that training reads it."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from PIL import Image

from inputs import ade20k, decoding, examples, pipeline


def write(root, name, split="training", size=(21, 34), label=None, seed=0):
    """One image, as JPEG, and its label; random where none is given. Returns (image, label) before encoding."""
    rng = np.random.RandomState(seed)
    for folder in ("images", "annotations"):
        os.makedirs(os.path.join(str(root), folder, split), exist_ok=True)
    image = np.kron(rng.randint(0, 256, (3, 4, 3)), np.ones((9, 9, 1)))[: size[0], : size[1]].astype(np.uint8)
    label = rng.randint(0, 151, size).astype(np.uint8) if label is None else label
    Image.fromarray(image).save(os.path.join(str(root), "images", split, name + ".jpg"), quality=95)
    Image.fromarray(label).save(os.path.join(str(root), "annotations", split, name + ".png"))
    return image, label


def test_a_split_is_listed_by_name_with_its_labels(tmp_path):
    for name in ("ADE_train_00000002", "ADE_train_00000001"):
        write(tmp_path, name)
    write(tmp_path, "ADE_val_00000001", "validation")
    found = ade20k.list_examples(tmp_path, "training")
    assert [e.name for e in found] == ["ADE_train_00000001", "ADE_train_00000002"]
    assert all(os.path.isfile(path) for e in found for path in (e.image_path, e.label_path))
    assert examples.check_examples(found) == {(21, 34)} and examples.image_sizes(found) == [(21, 34)] * 2


def test_value_0_is_ignored_and_value_v_is_class_v_minus_1(tmp_path):
    label = np.arange(151, dtype=np.uint8).reshape(1, 151)
    write(tmp_path, "a", size=(1, 151), label=label)
    example = ade20k.list_examples(tmp_path, "training")[0]
    with tf.Session() as session:
        got = session.run(decoding.read_label(example.label_path, example.encoding))
    np.testing.assert_array_equal(got, [[255] + list(range(150))])
    np.testing.assert_array_equal(ade20k.FILE_VALUES[got], label)  # and back


def test_there_are_150_different_names_and_colours_in_the_challenge_s_order():
    assert len(ade20k.CLASS_NAMES) == len(set(ade20k.CLASS_NAMES)) == 150
    # Places known from papers and from the challenge's own statistics, counted from 1.
    for number, name in ((1, "wall"), (2, "building"), (3, "sky"), (4, "floor"), (5, "tree"), (13, "person"),
                         (21, "car"), (77, "boat"), (81, "bus"), (128, "bicycle"), (137, "traffic light"),
                         (144, "monitor"), (150, "flag")):
        assert ade20k.CLASS_NAMES[number - 1] == name
    colors = ade20k.COLORS.astype(int)
    apart = np.abs(colors[:, None] - colors[None]).max(axis=2)
    assert colors.shape == (150, 3) and apart[~np.eye(150, dtype=bool)].min() >= 40  # told apart by eye


def test_training_and_evaluation_read_it_as_pil_does(tmp_path):
    written = [write(tmp_path, "ADE_train_%08d" % k, size=(21 + k, 34), seed=k) for k in range(3)]
    found = ade20k.list_examples(tmp_path, "training")
    data = pipeline.train_dataset(
        found, 3, seed=0, crop_size=(24, 34), scale_range=(1.0, 1.0), rotate_probability=0.0, blur_probability=0.0,
        flip_probability=0.0, mean=(0.0,) * 3, std=(1.0,) * 3, shuffle=False)
    batch = tf.data.make_one_shot_iterator(data).get_next()
    whole = tf.data.make_one_shot_iterator(pipeline.eval_dataset(found)).get_next()
    with tf.Session() as session:
        batch, first = session.run([batch, whole])
    for k, (_, label) in enumerate(written):
        top = (24 - label.shape[0]) // 2
        rows = slice(top, top + label.shape[0])
        np.testing.assert_array_equal(batch["label"][k][rows], np.where(label == 0, 255, label - 1.0))
        decoded = np.asarray(Image.open(found[k].image_path))
        assert np.mean(np.abs(batch["image"][k][rows] - decoded)) < 2  # JPEG decoders may round differently
    np.testing.assert_array_equal(first["label"], np.where(written[0][1] == 0, 255, written[0][1] - 1.0))


def fails(function, *words):
    with pytest.raises(examples.DataError) as caught:
        function()
    assert "\n" not in str(caught.value)
    for word in words:
        assert str(word) in str(caught.value), caught.value


def test_what_is_missing_or_broken_is_named(tmp_path):
    fails(lambda: ade20k.list_examples(tmp_path, "training"), tmp_path / "images" / "training", "no folder images")
    write(tmp_path, "a")
    fails(lambda: ade20k.list_examples(tmp_path, "train"), "*.jpg", "training")
    example = ade20k.list_examples(tmp_path, "training")[0]
    check = lambda: examples.check_examples(ade20k.list_examples(tmp_path, "training"))  # noqa: E731
    write(tmp_path, "a", label=np.full((21, 34), 151, np.uint8))
    fails(check, example.label_path, "151", "ADE20K")
    write(tmp_path, "a", label=np.zeros((20, 34), np.uint8))
    fails(check, "34x21", "34x20")
    with open(example.image_path, "r+b") as file:
        file.truncate(300)
    fails(check, example.image_path, "JPEG")
    Image.new("RGB", (34, 21)).save(example.image_path, "PNG")
    fails(check, example.image_path, "no JPEG but PNG")
    os.remove(example.label_path)
    fails(lambda: ade20k.list_examples(tmp_path, "training"), example.image_path, example.label_path)
    assert ade20k.list_examples(tmp_path, "training", require_labels=False)[0].label_path is None
