"""The official scorer and ours agree to the last digit; where it cannot be used, one line says why."""

import json
import types

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from inputs import labels  # noqa: E402
from inputs.examples import Example  # noqa: E402
from models import metrics  # noqa: E402
from scripts import evaluation, official  # noqa: E402
from tests.scripts.command import run, succeeded  # noqa: E402

CITYSCAPES = types.SimpleNamespace(dataset="cityscapes")


def scored_images(folder, classes, count=3, encoding=labels.LABEL_ID_FILES, ids=None, seed=0):
    """Images whose truth is drawn from `ids` (file values) and whose prediction from `classes`, half of it right."""
    rng = np.random.RandomState(seed)
    for number in range(count):
        values = rng.choice(ids, (40, 50)).astype(np.uint8)
        path = str(folder / "truth_{}.png".format(number))
        Image.fromarray(values).save(path)
        truth = encoding.table[values]
        guess = rng.choice(classes, truth.shape)
        prediction = np.where((truth != 255) & (rng.rand(*truth.shape) < 0.5), truth, guess).astype(np.int32)
        confusion = metrics.confusion(truth, prediction, 19)
        example = Example("x_{}".format(number), "x", None, path, encoding)
        yield evaluation.Scored(example, None, truth, prediction, confusion)


ALL_IDS = [row for row in range(34)]
CASES = {  # values in the truth, classes predicted, encoding
    "every labelId": (ALL_IDS, range(19), labels.LABEL_ID_FILES),
    "classes absent from both": ([0, 7, 23, 26, 33], [0, 10, 13], labels.LABEL_ID_FILES),
    "a class that is predicted only": ([0, 7, 23], [0, 10, 16], labels.LABEL_ID_FILES),
    "a class that is true only": ([1, 7, 24, 25], [0, 11], labels.LABEL_ID_FILES),
    "the licence plate": (ALL_IDS + [255], range(19), labels.LABEL_ID_FILES),
    "files of trainIds": (list(range(19)) + [255], range(19), labels.TRAIN_ID_FILES),
    "nothing that counts": ([0, 1, 4], range(19), labels.LABEL_ID_FILES),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_the_official_scorer_agrees_to_the_last_digit(tmp_path, case):
    ids, classes, encoding = CASES[case]
    total = np.zeros([19, 19], np.int64)
    with official.OfficialScorer(CITYSCAPES) as scorer:
        for scored in scored_images(tmp_path, list(classes), encoding=encoding, ids=ids):
            total += scored.confusion
            scorer.add(scored)
        found = scorer.scores()
    ours = metrics.scores(total)
    assert official.differences(ours, found) == []
    assert found["per_class_iou"] == ours["per_class_iou"]
    assert (scorer.num_copied > 0) == (255 in ids)
    present = sum(iou is not None for iou in found["per_class_iou"])
    assert present == ours["num_classes_present"] == {
        "every labelId": 19, "classes absent from both": 4, "a class that is predicted only": 3,
        "a class that is true only": 3, "the licence plate": 19, "files of trainIds": 19, "nothing that counts": 0}[case]


def test_any_difference_is_told():
    ours = {"miou": 0.5, "per_class_iou": [0.25, None] + [0.5] * 17}
    assert official.differences(ours, ours) == []
    off = {"miou": np.nextafter(0.5, 1), "per_class_iou": [0.25, 0.0] + [0.5] * 17}
    told = official.differences(ours, off)
    assert len(told) == 2 and told[0].startswith("mIoU") and "sidewalk: None here, 0.0 there" == told[1]


def test_where_it_cannot_be_used_one_line_says_why(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="ade20k"):
        official.OfficialScorer(types.SimpleNamespace(dataset="ade20k"))
    with official.OfficialScorer(CITYSCAPES) as scorer:
        scored, = scored_images(tmp_path, [0], count=1, ids=[7])
        scorer.add(scored)
        Image.fromarray(np.zeros([3, 3], np.uint8)).save(scored.example.label_path)  # the scorer prints and exits
        with pytest.raises(ValueError, match="stopped: ERROR: Image widths .* are not equal"):
            scorer.scores()
    monkeypatch.setattr(official, "MODULE", "cityscapesscripts.evaluation.nowhere")
    with pytest.raises(ValueError, match="cannot be imported .* install cityscapesscripts"):
        official.OfficialScorer(CITYSCAPES)


def test_evaluate_requires_that_the_official_scorer_agrees(streets, trained, tmp_path):
    scores = str(tmp_path / "scores.json")
    output = succeeded(run("evaluate", "--model_dir=" + trained[0], "--data_dir=" + streets, "--output=" + scores,
                           "--official", "--noflip"))
    with open(scores) as file:
        measured = json.load(file)
    assert measured["official"]["miou"] == measured["miou"] and measured["miou"] > 0
    assert measured["official"]["per_class_iou"] == list(measured["per_class_iou"].values())
    assert None in measured["official"]["per_class_iou"]
    assert "to the last digit: mIoU {!r}".format(measured["miou"]) in output
