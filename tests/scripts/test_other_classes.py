"""A data set of 150 classes and of images of many sizes, from training to scores: nothing assumes Cityscapes."""

import json
import os

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from configs import ade20k_pspnet50  # noqa: E402
from inputs import ade20k  # noqa: E402
from scripts import datasets, network  # noqa: E402
from scripts.commandline import UsageError  # noqa: E402
from tests.scripts.command import ROOT, run, succeeded, train  # noqa: E402

SIZES = [(40, 56), (64, 48), (45, 45)]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Three images to train on and three to evaluate: sky (class 2) above grass (9), a flag (149), some of it unlabelled."""
    root = tmp_path_factory.mktemp("ade")
    for split in ("training", "validation"):
        for number, (height, width) in enumerate(SIZES):
            label = np.full((height, width), 3, np.uint8)
            label[height // 2 :] = 10
            label[5:15, 5:20] = 150
            label[:2] = 0
            image = ade20k.COLORS[np.maximum(label, 1) - 1]
            for kind, pixels, suffix in (("images", image, ".jpg"), ("annotations", label, ".png")):
                folder = root / kind / split
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels).save(str(folder / "ADE_{}_{:08}{}".format(split, number, suffix)))
    return str(root)


@pytest.fixture(scope="module")
def results(scenes, tmp_path_factory):
    """What training printed, and the folder of its run and of what was predicted after it."""
    folder = tmp_path_factory.mktemp("ade_run")
    config = "--config=" + os.path.join(ROOT, "configs", "ade20k_pspnet50.py")
    command = train(config, "--data_dir=" + scenes, "--model_dir={}".format(folder / "run"), "--max_steps=2",
                    "--config.batch_size=2", "--config.eval.long_side=60", "--num_gpus=2")
    trained = succeeded(run(*command))
    image = os.path.join(scenes, "images", "validation", "ADE_validation_00000001.jpg")
    succeeded(run("predict", "--model_dir={}".format(folder / "run"), "--output_dir={}".format(folder / "out"), image))
    return trained, folder


@pytest.mark.long
def test_training_scores_each_of_the_150_classes_by_name(results):
    trained, folder = results
    assert "150 classes" in trained
    assert "3 of 3 images" not in trained and "1 of 3 images are 40x56" in trained  # the first of three sizes
    assert "43x60 at scale 1" in trained  # 60 pixels long, whatever the image
    with open(str(folder / "run" / "metrics.json")) as file:
        metrics = json.load(file)
    assert list(metrics["per_class_iou"]) == list(ade20k.CLASS_NAMES)
    for name in ("sky", "grass", "flag"):
        assert metrics["per_class_iou"][name] is not None
    assert metrics["num_images"] == 3 and len(os.listdir(str(folder / "run" / "pictures"))) == 2


@pytest.mark.long
def test_prediction_writes_the_values_of_the_data_set_s_own_files(results):
    _, folder = results
    written, = [name for name in os.listdir(str(folder / "out")) if name.endswith("_labelIds.png")]
    values = np.asarray(Image.open(str(folder / "out" / written)))
    assert values.shape == SIZES[1] and values.min() >= 1 and values.max() <= 150


def test_what_the_data_set_needs_is_said():
    with pytest.raises(UsageError, match="--data_dir is missing: name the folder that holds images and annotations"):
        datasets.open_split(ade20k_pspnet50.get_config(), None, "training")


def test_every_setting_of_the_evaluation_reaches_the_predictor(monkeypatch):
    asked = {}
    monkeypatch.setattr(network.inference, "SlidingWindowPredictor",
                        lambda network_fn, *where, **how: asked.update(how, where=where))
    config = ade20k_pspnet50.get_config()
    config.input.resize, config.eval.stride_rate, config.eval.scales, config.eval.flip = 0.75, 0.5, (0.5, 1.0), False
    network.TrainedNetwork(config, ["/cpu:0"])
    assert asked == dict(where=(150, ["/cpu:0"], (473, 473), config.input.mean, config.input.std), stride_rate=0.5,
                         scales=(0.5, 1.0), flip=False, resize=0.75, long_side=512)
