"""The sheet of samples shows what the run trains on, and what it says was drawn is what was done."""

import os
import re

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import pictures  # noqa: E402
from tests.scripts.command import ROOT, failed, run_all, succeeded  # noqa: E402

PLAIN = ["--config=" + os.path.join(ROOT, "configs", "cityscapes_pspnet50.py"), "--config.input.crop_size=48,64",
         "--config.input.scale_range=1.0,1.0", "--config.input.rotate_probability=0.0",
         "--config.input.blur_probability=0.0", "--config.batch_size=2"]


def test_the_pixels_are_those_of_the_files_mirrored_where_it_says_so(streets, tmp_path):
    sheet, later = str(tmp_path / "sheet.png"), str(tmp_path / "later.png")
    results = run_all({
        "sheet": ["browse_dataset", *PLAIN, "--data_dir=" + streets, "--output=" + sheet, "--num_images=6",
                  "--columns=2", "--width=132"],
        "later": ["browse_dataset", *PLAIN, "--data_dir=" + streets, "--output=" + later, "--num_images=2",
                  "--start_step=1"],
        "no folder": ["browse_dataset", *PLAIN, "--data_dir=" + streets, "--output=/nowhere/at/all.png"],
    })
    lines = [line for line in succeeded(results["sheet"]).splitlines() if "epoch" in line]
    assert len(lines) == 6 and 0 < sum("mirrored" in line for line in lines) < 6
    assert [line[4:] for line in lines[2:4]] == [
        line[4:] for line in succeeded(results["later"]).splitlines() if "epoch" in line]
    assert "/nowhere/at/all.png" in failed(results["no folder"])

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
