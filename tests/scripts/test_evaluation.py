"""Scoring of a split: by image and in all, on any number of towers, in bounded memory."""

import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

import towers  # noqa: E402
from scripts import checkpoints, configuration, datasets, evaluation  # noqa: E402
from tests.scripts.command import draw_street  # noqa: E402


def evaluator(model_dir, root, num_towers, split="val", **changes):
    config = configuration.read(model_dir)
    for name, value in changes.items():
        config.eval[name] = value
    examples = datasets.open_split(config, root, split)
    subject = evaluation.Evaluator(config, towers.tower_devices(num_towers, "cpu"), examples)
    subject.network.load_checkpoint(checkpoints.find(model_dir)[0])
    return subject


@pytest.fixture(scope="module")
def one_tower(trained, streets):
    """The evaluator on one tower at three scales, and what it found of each image."""
    subject = evaluator(trained[0], streets, 1, scales=(0.5, 1.0, 1.5), crop_size=(33, 41))
    return subject, list(subject.each())


def test_each_image_has_its_own_confusion_matrix_and_their_sum_is_scored(one_tower, streets):
    subject, found = one_tower
    assert [scored.example.name[-3:] for scored in found] == ["100", "101", "102"]
    for scored in found:
        label_ids = np.array(Image.open(scored.example.label_path))
        np.testing.assert_array_equal(scored.image, np.array(Image.open(scored.example.image_path)))
        counted = np.zeros([19, 19], int)
        for label_id, train_id in ((7, 0), (23, 10), (26, 13)):  # what is drawn; unlabelled is not counted
            np.add.at(counted[train_id], scored.prediction[label_ids == label_id], 1)
        np.testing.assert_array_equal(scored.confusion, counted)
    seen = []
    result = subject.run(1, on_image=seen.append)
    np.testing.assert_array_equal(result.confusion, sum(scored.confusion for scored in found))
    assert len(seen) == 3 and result.num_images == 3
    np.testing.assert_array_equal(result.samples[0].prediction, found[0].prediction)


@pytest.mark.parametrize("num_towers", [2, 3])
def test_any_number_of_towers_finds_the_same(one_tower, trained, streets, num_towers):
    subject = evaluator(trained[0], streets, num_towers, scales=(0.5, 1.0, 1.5), crop_size=(33, 41))
    for scored, alone in zip(subject.each(), one_tower[1]):
        np.testing.assert_array_equal(scored.prediction, alone.prediction)
        np.testing.assert_array_equal(scored.confusion, alone.confusion)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_images(trained, tmp_path):
    # A prediction of 240x320 pixels with 19 probabilities is 6 MB: 20 that were kept would be 117.
    for number in range(2):
        draw_street(tmp_path, "val", number, size=(240, 320))
    subject = evaluator(trained[0], str(tmp_path), 2, scales=(0.5, 1.0), crop_size=(241, 321))
    first = subject._examples
    subject = evaluation.Evaluator(subject._config, towers.tower_devices(2, "cpu"), [
        example._replace(name="copy_{}".format(number)) for number in range(14) for example in first])
    subject.network.load_checkpoint(checkpoints.find(trained[0])[0])
    megabytes = []
    assert subject.run(on_image=lambda scored: megabytes.append(resident())).num_images == 28
    assert max(megabytes[8:]) < max(megabytes[:8]) + 40, megabytes


def resident():
    """The memory of this process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
