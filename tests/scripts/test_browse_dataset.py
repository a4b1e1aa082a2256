"""The sheet of samples shows what the run trains on, and what it says was drawn is what was done."""

import os
import re

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from configs import cityscapes_pspnet50  # noqa: E402
from inputs import cityscapes, pipeline  # noqa: E402
from scripts import pictures, samples  # noqa: E402
from tests.inputs.test_pipeline import take  # noqa: E402
from tests.scripts.command import ROOT, run, succeeded  # noqa: E402


def test_samples_are_those_of_the_step_with_the_numbers_that_were_drawn(streets):
    config = cityscapes_pspnet50.get_config()
    config.batch_size, config.input.crop_size = 2, (33, 41)
    examples = cityscapes.list_examples(streets, "train")
    got = list(samples.seen_from(config, examples, 3, 4))
    batches = take(pipeline.train_dataset(examples, 2, config.seed, 3, **config.input.to_dict()), 2)
    for k, sample in enumerate(got):
        batch, place = batches[k // 2], k % 2
        assert (sample.index, sample.epoch) == (batch["index"][place], batch["epoch"][place])
        image = batch["image"][place] * config.input.std + config.input.mean
        assert np.abs(sample.image - np.clip(image, 0, 255)).max() <= 0.51
        np.testing.assert_array_equal(sample.label, batch["label"][place])
        assert 0.5 <= sample.drawn["scale"] <= 2
        inside = (sample.label != 255).mean()
        if sample.drawn["scale"] < 0.6 and not sample.drawn["rotate"]:  # 48x64 at this scale is smaller than the crop
            assert inside <= (48 * 0.6) * (64 * 0.6) / (33 * 41)
    words = samples.describe(dict(scale=0.834, rotate=True, degrees=-3.21, blur=False, flip=True, crop_y=0.5, crop_x=0.25))
    assert words == "scale 0.83, rotated -3.2°, mirrored, crop at y 0.50 x 0.25"


def test_the_pixels_are_those_of_the_files_mirrored_where_it_says_so(streets, tmp_path):
    sheet = str(tmp_path / "sheet.png")
    output = succeeded(run(
        "browse_dataset", "--config=" + os.path.join(ROOT, "configs", "cityscapes_pspnet50.py"),
        "--config.input.crop_size=48,64", "--config.input.scale_range=1.0,1.0", "--config.input.rotate_probability=0.0",
        "--config.input.blur_probability=0.0", "--data_dir=" + streets, "--output=" + sheet, "--num_images=6",
        "--columns=2", "--width=132"))
    lines = [line for line in output.splitlines() if "epoch" in line]
    assert len(lines) == 6 and 0 < sum("mirrored" in line for line in lines) < 6

    # The panels are found by their pixels: at this width they are not enlarged.
    shown = np.asarray(Image.open(sheet)).astype(int)
    for line in lines:
        name = re.search(r"town_\S+", line).group()
        image = np.asarray(Image.open(os.path.join(streets, "leftImg8bit", "train", "town", name + "_leftImg8bit.png")))
        wanted = image[:, ::-1] if "mirrored" in line else image
        top, left = place_of(wanted, shown)
        assert np.abs(shown[top:top + 48, left:left + 64] - wanted).max() <= 1
        label = shown[top:top + 48, left + 68:left + 132]
        ignored = np.full([3, 64], 255)
        np.testing.assert_array_equal(label[:3], pictures.overlay(wanted[:3], ignored, np.zeros([19, 3])))


def place_of(image, sheet):
    """Where the sheet shows an image, by the first row of its pixels."""
    row = image[0].astype(int)
    for top in range(sheet.shape[0] - image.shape[0]):
        for left in np.flatnonzero(np.abs(sheet[top, :, :] - row[0]).max(axis=-1) <= 1):
            part = sheet[top, left:left + len(row)]
            if part.shape == row.shape and np.abs(part - row).max() <= 1:
                return top, left
    raise AssertionError("the image is not on the sheet")
