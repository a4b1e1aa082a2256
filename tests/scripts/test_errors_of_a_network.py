"""What a network gets wrong: the confusion matrix as a picture, and the images with the worst scores."""

import collections
import csv
import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import confusion_matrix, image_ranking  # noqa: E402
from scripts.evaluation import Scored  # noqa: E402
from tests.scripts.command import failed, run, run_all, succeeded  # noqa: E402

MATRIX = [[90, 10, 0, 0], [5, 5, 10, 0], [0, 0, 0, 0], [0, 0, 0, 0]]  # 'sky' is predicted but never true, 'van' neither
NAMES = ("road", "car", "sky", "van")


def test_shares_are_of_rows_or_of_columns_and_absent_classes_are_left_out():
    matrix, names = confusion_matrix.present(np.array(MATRIX), list(NAMES))
    assert names == ["road", "car", "sky"]
    rows = confusion_matrix.shares(matrix)
    np.testing.assert_allclose(rows[:2], [[0.9, 0.1, 0], [0.25, 0.25, 0.5]])
    assert np.isnan(rows[2]).all()
    np.testing.assert_allclose(confusion_matrix.shares(matrix, "prediction"),
                               [[90 / 95, 10 / 15, 0], [5 / 95, 5 / 15, 1], [0, 0, 0]])
    told = [line.split() for line in confusion_matrix.largest(matrix, names, 2)]
    assert told == [["car", "taken", "for", "sky", "50.00", "%", "of", "it,", "10"],
                    ["car", "taken", "for", "road", "25.00", "%", "of", "it,", "5"]]


def test_the_picture_is_as_dark_as_the_share(tmp_path):
    path = str(tmp_path / "matrix.png")
    share = np.array([[1.0, 0.0], [0.5, np.nan]])
    confusion_matrix.draw(share, ["a", "b"], path)
    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    colors, counts = np.unique(pixels, axis=0, return_counts=True)
    large = {tuple(color) for color, count in zip(colors.tolist(), counts) if count > 3000}
    from matplotlib import colormaps

    wanted = {tuple(int(round(255 * c)) for c in colormaps["Blues"](value)[:3]) for value in (0.0, 1.0)}
    assert wanted | {(221, 221, 221)} <= large
    assert not [name for name in os.listdir(str(tmp_path)) if "partial" in name]


def test_the_matrix_of_a_run_is_drawn_and_a_file_without_one_is_named(trained, tmp_path):
    (tmp_path / "old.json").write_text('{"step": 4, "per_class_iou": {"road": 0.5}}')
    (tmp_path / "nothing.json").write_text(json.dumps({"per_class_iou": {"road": None}, "confusion": [[0]]}))
    picture = str(tmp_path / "confusion.png")
    results = run_all({
        "run": ["draw_confusion", trained[0], "--output=" + picture],
        "old": ["draw_confusion", tmp_path / "old.json"],
        "nothing": ["draw_confusion", tmp_path / "nothing.json"],
    })
    assert "taken for" in succeeded(results["run"]) and Image.open(picture).size[0] > 300
    for name, words in (("old", "no confusion matrix"), ("nothing", "ignored")):
        assert words in failed(results[name]), name


def scored(name, confusion):
    example = collections.namedtuple("Example", "name")(name)
    return Scored(example, np.zeros([2, 2, 3], np.uint8), np.zeros([2, 2], int), np.zeros([2, 2], int), np.array(confusion))


def test_images_are_ranked_by_their_own_scores_and_those_without_any_come_last():
    images = [scored("good", [[8, 2], [0, 10]]), scored("nothing", [[0, 0], [0, 0]]), scored("bad", [[1, 9], [5, 5]]),
              scored("half", [[0, 0], [5, 5]]), scored("bad too", [[1, 9], [5, 5]])]
    rows, worst = image_ranking.rank(iter(images), "miou", 2)
    assert [row.name for row in rows] == ["bad", "bad too", "half", "good", "nothing"]
    # bad: 1/15 and 5/19; half: 0 (predicted, never true) and 5/10; good: 8/10 and 10/12
    expected = [(1 / 15 + 5 / 19) / 2, (1 / 15 + 5 / 19) / 2, 0.25, (0.8 + 10 / 12) / 2]
    np.testing.assert_allclose([row.score for row in rows[:4]], expected)
    assert [(row.name, one.example.name) for row, one in worst] == [("bad", "bad"), ("bad too", "bad too")]
    rows, _ = image_ranking.rank(iter(images), "pixel_accuracy", 9)
    assert [row.name for row in rows][:3] == ["bad", "bad too", "half"] and rows[2].score == 0.5 and rows[3].score == 0.9


def test_the_sheet_and_the_table_are_of_every_image_of_the_split(streets, trained, tmp_path):
    succeeded(run("worst_images", "--model_dir=" + trained[0], "--data_dir=" + streets, "--output_dir={}".format(tmp_path),
                  "--num_images=2", "--by=pixel_accuracy"))
    with open(str(tmp_path / "worst_val.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    accuracy = np.array([float(row["pixel_accuracy"]) for row in rows])
    counted = []
    for row in rows:  # unlabelled is labelId 0
        path = os.path.join(streets, "gtFine", "val", "town", row["name"] + "_gtFine_labelIds.png")
        counted.append((np.asarray(Image.open(path)) != 0).sum())
        assert int(row["counted_pixels"]) == counted[-1]
    assert [row["rank"] for row in rows] == ["1", "2", "3"] and (np.diff(accuracy) >= 0).all()
    with open(os.path.join(trained[0], "metrics.json")) as file:  # of all images together, as the run scored them
        assert np.average(accuracy, weights=counted) == pytest.approx(json.load(file)["pixel_accuracy"], abs=1e-5)
    sheet = Image.open(str(tmp_path / "worst_val.png"))
    assert sheet.size[0] > 2 * 3 * 64 and sheet.size[1] > 48
