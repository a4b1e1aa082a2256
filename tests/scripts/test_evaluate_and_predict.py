"""evaluate.py and predict.py as a user runs them, on a checkpoint that train.py left."""

import json
import os
import shutil

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from tests.scripts.command import failed, run, succeeded  # noqa: E402


def test_evaluate_agrees_with_the_run_and_with_the_predictions(streets, trained, tmp_path):
    from cityscapesscripts.helpers.labels import labels

    model_dir, _ = trained
    scores = str(tmp_path / "scores.json")
    output = succeeded(run(
        "evaluate",
        "--model_dir=" + model_dir,
        "--data_dir=" + streets,
        "--output=" + scores,
        "--num_gpus=2",
        "--num_pictures=1",
    ))
    with open(scores) as file:
        measured = json.load(file)
    with open(os.path.join(model_dir, "metrics.json")) as file:
        at_the_end = json.load(file)
    assert measured["miou"] == pytest.approx(at_the_end["miou"], abs=1e-6)
    assert measured["step"] == 4 and measured["flip"] is True
    assert "mIoU {:.4f}".format(measured["miou"]) in output
    rows = {line[:16].strip(): line[16:].split()[0] for line in output.splitlines() if len(line.split()) >= 3}
    for name, iou in measured["per_class_iou"].items():
        assert rows[name] == ("absent" if iou is None else "{:.4f}".format(iou)), name
    assert os.listdir(str(tmp_path / "scores_pictures")) == ["town_000000_000100.png"]

    predictions = tmp_path / "predictions"
    folder = os.path.join(streets, "leftImg8bit", "val")
    output = succeeded(run("predict", "--model_dir=" + model_dir, "--output_dir={}".format(predictions), folder))
    assert "3 image(s)" in output and (predictions / "legend.png").exists()
    # The same score, counted by hand from the labelId files: road is labelId 7.
    hits = union = 0
    for number in (100, 101, 102):
        name = "town_000000_{:06}".format(number)
        path = predictions / "town" / (name + "_leftImg8bit_labelIds.png")
        predicted = np.array(Image.open(path))
        truth = np.array(
            Image.open(os.path.join(streets, "gtFine", "val", "town", name + "_gtFine_labelIds.png"))
        )
        assert predicted.shape == truth.shape and predicted.dtype == np.uint8
        assert set(np.unique(predicted)) <= {label.id for label in labels if 0 <= label.trainId < 19}
        overlay = Image.open(predictions / "town" / (name + "_leftImg8bit_overlay.png"))
        assert overlay.size == (64, 48) and overlay.mode == "RGB"
        counted = truth != 0
        hits += ((predicted == 7) & (truth == 7) & counted).sum()
        union += (((predicted == 7) | (truth == 7)) & counted).sum()
    assert hits / union == pytest.approx(measured["per_class_iou"]["road"], abs=1e-9)


def test_windows_scales_and_flip_follow_the_flags(streets, trained, tmp_path):
    scores = str(tmp_path / "scores.json")
    output = succeeded(run(
        "evaluate",
        "--model_dir=" + trained[0],
        "--data_dir=" + streets,
        "--output=" + scores,
        "--split=train",
        "--noflip",
        "--scales=0.75,1.5",
        "--crop_size=33,41",
        "--stride_rate=0.5",
        "--max_images=2",
        "--checkpoint=best",
    ))
    with open(scores) as file:
        measured = json.load(file)
    assert (measured["num_images"], measured["split"], measured["flip"]) == (2, "train", False)
    assert (measured["scales"], measured["crop_size"], measured["stride_rate"]) == (
        [0.75, 1.5],
        [33, 41],
        0.5,
    )
    assert os.sep + "best" + os.sep in measured["checkpoint"] and "33x41" in output


def test_predict_takes_jpegs_of_any_size_and_keeps_what_is_there(trained, tmp_path):
    photograph = str(tmp_path / "photo.jpg")
    Image.fromarray(np.random.RandomState(0).randint(0, 255, [30, 111, 3], dtype=np.uint8)).save(photograph)
    arguments = ["--model_dir=" + trained[0], "--output_dir={}".format(tmp_path / "out"), photograph]
    succeeded(run("predict", *arguments))
    assert Image.open(tmp_path / "out" / "photo_overlay.png").size == (111, 30)
    assert "--overwrite" in failed(run("predict", *arguments))


def test_an_image_that_is_named_twice_is_predicted_once(trained, tmp_path):
    photograph = str(tmp_path / "in" / "photo.png")
    os.makedirs(os.path.dirname(photograph))
    Image.new("RGB", (40, 30), (90, 120, 30)).save(photograph)
    arguments = ["--model_dir=" + trained[0], "--output_dir={}".format(tmp_path / "out")]
    output = succeeded(run("predict", *arguments, photograph, photograph, os.path.dirname(photograph)))
    assert output.startswith("1 image(s)")


def test_a_split_without_a_true_pixel_has_no_score(streets, trained, tmp_path):
    root = tmp_path / "streets"
    shutil.copytree(os.path.join(streets, "leftImg8bit", "val"), root / "leftImg8bit" / "test")
    shutil.copytree(os.path.join(streets, "gtFine", "val"), root / "gtFine" / "test")
    for path in (root / "gtFine" / "test").glob("*/*_labelIds.png"):
        Image.fromarray(np.zeros_like(np.array(Image.open(path)))).save(path)  # labelId 0, as in Cityscapes' own
    told = failed(run("evaluate", "--model_dir=" + trained[0], "--data_dir={}".format(root), "--split=test",
                      "--output={}".format(tmp_path / "scores.json")))
    assert "'test'" in told and "no score" in told
    told = failed(run("worst_images", "--model_dir=" + trained[0], "--data_dir={}".format(root), "--split=test",
                      "--output_dir={}".format(tmp_path)))
    assert "'test'" in told and "no score" in told and not list(tmp_path.glob("worst_*"))
    assert not (tmp_path / "scores.json").exists()
