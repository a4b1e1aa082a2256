"""Finding and checking files: what is listed, and that each fault is one line that names the file."""

import os
import re

import numpy as np
import pytest
from PIL import Image

from inputs import cityscapes
from tests.inputs import files


def fails(call, *words):
    """The error of `call` is a DataError in one line with all these words."""
    with pytest.raises(cityscapes.DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert str(word) in message, message


def test_examples_are_sorted_by_name_across_cities(tmp_path):
    files.write_pair(tmp_path, "b_1", city="x")
    files.write_pair(tmp_path, "a_2", city="y")
    files.write_pair(tmp_path, "c_0", city="a")
    files.write_pair(tmp_path, "d_0", split="val")
    found = cityscapes.list_examples(tmp_path, "train")
    assert [(e.name, e.city) for e in found] == [("a_2", "y"), ("b_1", "x"), ("c_0", "a")]
    assert all(os.path.isfile(e.image_path) and os.path.isfile(e.label_path) for e in found)


def test_label_ids_are_preferred_and_train_ids_taken_where_only_they_exist(tmp_path):
    files.write_pair(tmp_path, "a")
    files.write_pair(tmp_path, "a", label=np.zeros((12, 20), np.uint8), **{"city": "town"})
    image_path, label_path = files.paths(tmp_path, "b", label="labelTrainIds")
    Image.new("RGB", (20, 12)).save(image_path)
    Image.new("L", (20, 12)).save(label_path)
    Image.new("L", (20, 12)).save(files.paths(tmp_path, "a", label="labelTrainIds")[1])
    first, second = cityscapes.list_examples(tmp_path, "train")
    assert first.label_path.endswith("_gtFine_labelIds.png") and not cityscapes.holds_train_ids(
        first.label_path
    )
    assert second.label_path == label_path and cityscapes.holds_train_ids(label_path)


def test_no_images_names_the_folder_and_the_pattern(tmp_path):
    folder = os.path.join(str(tmp_path), "leftImg8bit", "val")
    fails(lambda: cityscapes.list_examples(tmp_path, "val"), folder, "*/*_leftImg8bit.png")
    files.write_pair(tmp_path, "a")
    fails(lambda: cityscapes.list_examples(tmp_path, "val"), folder, "the splits there are: train")
    fails(
        lambda: cityscapes.list_examples(tmp_path / "absent", "val"), tmp_path / "absent", "is not a folder"
    )


def test_a_root_with_pattern_characters_is_taken_literally(tmp_path):
    files.write_pair(tmp_path / "set[1]", "a")
    assert len(cityscapes.list_examples(tmp_path / "set[1]", "train")) == 1


def test_an_image_without_its_label_names_both_paths(tmp_path):
    files.write_pair(tmp_path, "a")
    image_path, label_path = files.paths(tmp_path, "a")
    os.remove(label_path)
    fails(lambda: cityscapes.list_examples(tmp_path, "train"), image_path, label_path)
    assert cityscapes.list_examples(tmp_path, "train", require_labels=False)[0].label_path is None


def test_one_name_in_two_cities_is_refused(tmp_path):
    files.write_pair(tmp_path, "a", city="x")
    files.write_pair(tmp_path, "a", city="y")
    fails(lambda: cityscapes.list_examples(tmp_path, "train"), "name a", "x", "y")


def check(tmp_path, **kwargs):
    return cityscapes.check_examples(
        cityscapes.list_examples(tmp_path, "train", require_labels=False), **kwargs
    )


def test_sound_files_pass_and_their_sizes_are_returned(tmp_path):
    files.write_pair(tmp_path, "a", size=(12, 20))
    files.write_pair(tmp_path, "b", size=(13, 21))
    assert check(tmp_path) == check(tmp_path, full_bytes=0) == {(12, 20), (13, 21)}


def test_real_photographs_pass(camvid_root):
    examples = cityscapes.list_examples(camvid_root, "train") + cityscapes.list_examples(camvid_root, "val")
    assert cityscapes.check_examples(examples) == {(360, 480)}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["half", "tail", "flip", "empty", "text"])
def test_a_damaged_file_is_named(tmp_path, how, which):
    files.write_pair(tmp_path, "a", size=(60, 80))
    files.write_pair(tmp_path, "b", size=(60, 80))
    path = files.paths(tmp_path, "b")[which]
    files.damage(path, how)
    fails(lambda: check(tmp_path), path)
    if how != "flip":  # found by the quick check as well, which reads no more than headers and ends
        fails(lambda: check(tmp_path, full_bytes=0), path)


def test_bytes_after_the_end_of_a_png_are_no_fault(tmp_path):
    files.write_pair(tmp_path, "a")
    with open(files.paths(tmp_path, "a")[0], "ab") as file:
        file.write(b"\n")
    assert check(tmp_path) == check(tmp_path, full_bytes=0) == {(12, 20)}


def test_image_and_label_of_different_size_name_both_files_and_sizes(tmp_path):
    files.write_pair(tmp_path, "a", label=np.zeros((11, 20), np.uint8))
    fails(lambda: check(tmp_path), *files.paths(tmp_path, "a") + ("20x12", "20x11"))


@pytest.mark.parametrize("mode", ["RGB", "P", "1", "LA", "I;16"])
def test_a_label_that_is_not_8_bit_grey_is_named(tmp_path, mode):
    files.write_pair(tmp_path, "a")
    path = files.paths(tmp_path, "a")[1]
    Image.new(mode, (20, 12)).save(path)
    fails(lambda: check(tmp_path), path, "8-bit single-channel")


def test_an_unknown_id_is_named_with_its_value(tmp_path):
    files.write_pair(tmp_path, "a")
    label = np.zeros((12, 20), np.uint8)
    label[3, 4] = 77
    files.write_pair(tmp_path, "b", label=label)
    fails(lambda: check(tmp_path), files.paths(tmp_path, "b")[1], "77", "labelId")


def test_a_train_id_file_is_checked_against_train_ids(tmp_path):
    image_path, label_path = files.paths(tmp_path, "a", label="labelTrainIds")
    Image.new("RGB", (20, 12)).save(image_path)
    Image.new("L", (20, 12), 26).save(label_path)
    fails(lambda: check(tmp_path), label_path, "26", "trainId")


def test_nothing_to_check_is_an_error():
    fails(lambda: cityscapes.check_examples([]), "no examples")


def test_the_message_for_a_damaged_file_holds_no_object_address(tmp_path):
    files.write_pair(tmp_path, "a")
    path = files.paths(tmp_path, "a")[0]
    files.damage(path, "text")
    with pytest.raises(cityscapes.DataError) as caught:
        check(tmp_path)
    assert not re.search("0x[0-9a-f]{6}", str(caught.value))
