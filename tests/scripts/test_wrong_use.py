"""Wrong use ends in one clear line and exit code 1 or 2, and nothing is written."""

import os
import shutil

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from tests.scripts.command import SMALL, draw_street, fail  # noqa: E402


def refused(data_dir, tmp_path, *arguments):
    """The line with which train.py refuses; model_dir is not made."""
    model_dir = tmp_path / "run"
    told = fail(
        "train", *SMALL, "--data_dir={}".format(data_dir), "--model_dir={}".format(model_dir), *arguments
    )
    assert not model_dir.exists()
    return told


def label_of(number, street):
    return os.path.join(
        street, "gtFine", "train", "town", "town_000000_{:06}_gtFine_labelIds.png".format(number)
    )


def image_of(number, street):
    return os.path.join(
        street, "leftImg8bit", "train", "town", "town_000000_{:06}_leftImg8bit.png".format(number)
    )


def test_more_towers_than_gpus(streets, tmp_path):
    told = refused(streets, tmp_path, "--device_type=gpu", "--num_gpus=99")
    assert "99" in told and "GPU" in told


def test_a_batch_smaller_than_the_towers(streets, tmp_path):
    told = refused(streets, tmp_path, "--num_gpus=3", "--config.batch_size=2")
    assert "batch_size 2" in told and "3 towers" in told


@pytest.mark.parametrize("setting", ["input.crop_size", "eval.crop_size"])
def test_a_crop_that_the_network_cannot_take_names_the_nearest_that_it_can(streets, tmp_path, setting):
    told = refused(streets, tmp_path, "--config.{}=(49,66)".format(setting))
    assert setting in told and "66" in told and "65" in told and "73" in told


def test_a_misspelt_setting_and_a_wrong_type(streets, tmp_path):
    told = refused(streets, tmp_path, "--config.batch_siz=2")
    assert "batch_siz" in told and "batch_size" in told
    told = refused(streets, tmp_path, "--config.batch_size=two")
    assert "batch_size" in told and "two" in told


def test_an_unknown_flag_and_a_missing_configuration(streets, tmp_path):
    assert "num_gpu" in refused(streets, tmp_path, "--num_gpu=2")
    assert "nowhere.py" in fail("train", "--config=nowhere.py")


def test_no_images_names_folder_and_pattern(tmp_path):
    told = refused(tmp_path / "empty", tmp_path)
    assert (
        os.path.join(str(tmp_path / "empty"), "leftImg8bit", "train") in told and "_leftImg8bit.png" in told
    )


def test_an_image_without_its_label_names_both(street, tmp_path):
    os.remove(label_of(1, street))
    told = refused(street, tmp_path)
    assert image_of(1, street) in told and label_of(1, street) in told


def test_a_label_value_that_is_no_known_id(street, tmp_path):
    label = np.array(Image.open(label_of(2, street)))
    label[5, 5] = 77
    Image.fromarray(label).save(label_of(2, street))
    told = refused(street, tmp_path)
    assert label_of(2, street) in told and "77" in told


def test_image_and_label_of_different_size(street, tmp_path):
    Image.fromarray(np.full([48, 60], 7, np.uint8)).save(label_of(3, street))
    told = refused(street, tmp_path)
    assert label_of(3, street) in told and "60x48" in told and "64x48" in told


def test_a_truncated_image_is_named(street, tmp_path):
    path = image_of(0, street)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    assert path in refused(street, tmp_path)


def test_a_model_dir_of_another_configuration_lists_what_differs(streets, trained):
    model_dir, _ = trained
    before = sorted(os.listdir(model_dir))
    told = fail(
        "train",
        *SMALL,
        "--data_dir=" + streets,
        "--model_dir=" + model_dir,
        "--config.batch_size=6",
        "--config.optimizer.momentum=0.8",
    )
    assert "batch_size: 4 -> 6" in told and "optimizer.momentum: 0.9 -> 0.8" in told
    assert "--allow_config_change" in told
    assert sorted(os.listdir(model_dir)) == before


def test_a_checkpoint_of_another_network_lists_what_differs(streets, trained, tmp_path):
    model_dir = str(tmp_path / "run")
    shutil.copytree(trained[0], model_dir)
    before = {name: os.path.getmtime(os.path.join(model_dir, name)) for name in os.listdir(model_dir)}
    told = fail(
        "train",
        *SMALL,
        "--data_dir=" + streets,
        "--model_dir=" + model_dir,
        "--config.model.width=6",
        "--allow_config_change",
        "--max_steps=6",
    )
    assert "another network" in told and "resnet/" in told and "6" in told
    assert {name: os.path.getmtime(os.path.join(model_dir, name)) for name in os.listdir(model_dir)} == before


def test_a_model_dir_that_is_a_file(streets, tmp_path):
    (tmp_path / "file").write_text("")
    assert "not a folder" in fail(
        "train", *SMALL, "--data_dir=" + streets, "--model_dir={}".format(tmp_path / "file")
    )


def test_evaluate_and_predict_say_what_is_missing(streets, trained, tmp_path):
    assert "--model_dir" in fail("evaluate")
    assert "config.json" in fail("evaluate", "--model_dir={}".format(tmp_path))
    assert "no checkpoint" in fail(
        "evaluate", "--model_dir=" + trained[0], "--checkpoint=elsewhere", "--data_dir=" + streets
    )
    assert "no image" in fail(
        "predict", "--model_dir=" + trained[0], "--output_dir={}".format(tmp_path / "out")
    )
    image = draw_street(tmp_path / "other", "val", 1)[0]
    with open(image, "wb") as file:
        file.write(b"no picture")
    assert image in fail(
        "predict", "--model_dir=" + trained[0], "--output_dir={}".format(tmp_path / "out"), image
    )
    assert not (tmp_path / "out").exists()
