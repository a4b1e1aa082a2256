"""What a network gets wrong: the confusion matrix as a picture, and the images with the worst scores."""

import csv
import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import draw_confusion  # noqa: E402
from tests.scripts.command import failed, run, run_all, succeeded  # noqa: E402

MATRIX = [[90, 10, 0, 0], [5, 5, 10, 0], [0, 0, 0, 0], [0, 0, 0, 0]]  # 'sky' is predicted but never true, 'van' neither
NAMES = ("road", "car", "sky", "van")


def test_shares_are_of_rows_or_of_columns_and_absent_classes_are_left_out():
    matrix, names = draw_confusion.present(np.array(MATRIX), list(NAMES))
    assert names == ["road", "car", "sky"]
    rows = draw_confusion.shares(matrix)
    np.testing.assert_allclose(rows[:2], [[0.9, 0.1, 0], [0.25, 0.25, 0.5]])
    assert np.isnan(rows[2]).all()
    np.testing.assert_allclose(draw_confusion.shares(matrix, "prediction"),
                               [[90 / 95, 10 / 15, 0], [5 / 95, 5 / 15, 1], [0, 0, 0]])
    told = [line.split() for line in draw_confusion.largest(matrix, names, 2)]
    assert told == [["car", "taken", "for", "sky", "50.00", "%", "of", "it,", "10"],
                    ["car", "taken", "for", "road", "25.00", "%", "of", "it,", "5"]]


def test_the_picture_is_as_dark_as_the_share(tmp_path):
    path = str(tmp_path / "matrix.png")
    share = np.array([[1.0, 0.0], [0.5, np.nan]])
    draw_confusion.draw(share, ["a", "b"], path)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    colors, counts = np.unique(pixels, axis=0, return_counts=True)
    large = {tuple(color) for color, count in zip(colors.tolist(), counts) if count > 3000}
    from matplotlib import colormaps

    wanted = {tuple(int(round(255 * c)) for c in colormaps["Blues"](value)[:3]) for value in (0.0, 1.0)}
    assert wanted | {(221, 221, 221)} <= large
    assert not [name for name in os.listdir(str(tmp_path)) if "partial" in name]


def test_the_matrix_of_a_run_is_drawn_and_a_file_without_one_is_named(trained, tmp_path):
    (tmp_path / "old.json").write_text('{"step": 4, "per_class_iou": {"road": 0.5}}')
    (tmp_path / "words.json").write_text("words")
    (tmp_path / "nothing.json").write_text(json.dumps({"per_class_iou": {"road": None}, "confusion": [[0]]}))
    picture = str(tmp_path / "confusion.png")
    results = run_all({
        "run": ["draw_confusion", trained[0], "--output=" + picture],
        "old": ["draw_confusion", tmp_path / "old.json"],
        "words": ["draw_confusion", tmp_path / "words.json"],
        "nothing": ["draw_confusion", tmp_path / "nothing.json"],
        "missing": ["draw_confusion", tmp_path / "missing.json"],
    })
    assert "taken for" in succeeded(results["run"]) and Image.open(picture).size[0] > 300
    for name, words in (("old", "no confusion matrix"), ("words", "no JSON"), ("nothing", "ignored"), ("missing", "missing")):
        assert words in failed(results[name]), name


def test_images_are_listed_worst_first_with_the_scores_that_their_predictions_have(streets, trained, tmp_path):
    folder = os.path.join(streets, "leftImg8bit", "val")
    succeeded(run("worst_images", "--model_dir=" + trained[0], "--data_dir=" + streets, "--output_dir={}".format(tmp_path),
                  "--num_images=2", "--by=pixel_accuracy"))
    with open(str(tmp_path / "worst_val.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [float(row["pixel_accuracy"]) for row in rows]
    assert len(rows) == 3 and scores == sorted(scores) and [row["rank"] for row in rows] == ["1", "2", "3"]
    succeeded(run("predict", "--model_dir=" + trained[0], "--output_dir={}".format(tmp_path / "predictions"), folder))
    for row in rows:  # counted by hand: sky, road and car are labelIds 23, 7 and 26, unlabelled is 0
        truth = np.asarray(Image.open(os.path.join(streets, "gtFine", "val", "town", row["name"] + "_gtFine_labelIds.png")))
        predicted = np.asarray(Image.open(tmp_path / "predictions" / "town" / (row["name"] + "_leftImg8bit_labelIds.png")))
        counted = truth != 0
        assert float(row["pixel_accuracy"]) == pytest.approx((truth == predicted)[counted].mean(), abs=1e-6)
        assert int(row["counted_pixels"]) == counted.sum()
        hits, either = ((truth == 7) & (predicted == 7)).sum(), ((truth == 7) | (predicted == 7))[counted].sum()
        assert float(row["IoU road"]) == pytest.approx(hits / either, abs=1e-6)
    sheet = Image.open(str(tmp_path / "worst_val.png"))
    assert sheet.size[0] > 2 * 3 * 64 and sheet.size[1] > 48
