"""What predict.py writes is what the benchmark's server takes, and a folder that it would not take is told apart."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ml_collections", reason="the scripts need ml_collections")

from PIL import Image  # noqa: E402

from scripts import submission  # noqa: E402
from tests.scripts.command import ROOT, draw_street, failed, run, succeeded  # noqa: E402

NAMES = ["town_000000_000007", "town_000000_000008", "village_000001_000019"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A test split without labels: three images in two cities, one of another size."""
    root = tmp_path_factory.mktemp("unlabelled")
    for number, size in ((7, (48, 64)), (8, (30, 100))):
        draw_street(root, "test", number, size)
    shutil.rmtree(str(root / "gtFine"))
    village = root / "leftImg8bit" / "test" / "village"
    village.mkdir()
    shutil.copy(str(root / "leftImg8bit/test/town/town_000000_000007_leftImg8bit.png"),
                str(village / "village_000001_000019_leftImg8bit.png"))
    return str(root)


@pytest.fixture(scope="module")
def written(root, trained, tmp_path_factory):
    """What predict.py --submission wrote for it."""
    folder = str(tmp_path_factory.mktemp("submission") / "out")
    output = succeeded(run("predict", "--model_dir=" + trained[0], "--submission", "--data_dir=" + root, "--split=test",
                           "--output_dir=" + folder))
    assert "3 image(s)" in output
    return folder


def test_a_submission_is_one_label_id_picture_an_image_and_nothing_else(written, root):
    assert sorted(os.listdir(written)) == [name + "_labelIds.png" for name in NAMES]
    for name, size in zip(NAMES, [(64, 48), (100, 30), (64, 48)]):
        with Image.open(os.path.join(written, name + "_labelIds.png")) as picture:
            assert (picture.format, picture.mode, picture.size) == ("PNG", "L", size)
            assert set(np.unique(np.array(picture))) <= {
                7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33}
    # The same picture twice, under two names, and the same result.
    same = [np.array(Image.open(os.path.join(written, NAMES[k] + "_labelIds.png"))) for k in (0, 2)]
    np.testing.assert_array_equal(*same)
    output = succeeded(run("check_submission", written, "--data_dir=" + root))
    assert "3 of 3 images" in output and "0 fault(s)" in output


def test_the_official_scorer_finds_each_file_by_its_name(written, monkeypatch):
    scorer = pytest.importorskip("cityscapesscripts.evaluation.evalPixelLevelSemanticLabeling")
    monkeypatch.setattr(scorer.args, "predictionPath", written)
    monkeypatch.setattr(scorer.args, "predictionWalk", None)
    for name in NAMES:
        found = scorer.getPrediction(scorer.args, "/anywhere/{}_gtFine_labelIds.png".format(name))
        assert os.path.basename(found).startswith(name)


def _save(array, path, **options):
    Image.fromarray(array).save(path, **options)


def _palette(path):
    picture = Image.open(path).convert("P")
    picture.save(path)


FAULTS = {  # what is done to the folder, and what the line must begin with and hold
    "missing": (lambda f: os.remove(f(NAMES[1])), "missing: ", NAMES[1]),
    "surplus image": (lambda f: shutil.copy(f(NAMES[0]), f("town_000000_000009")), "surplus: ", "town_000000_000009"),
    "surplus file": (lambda f: open(f("legend"), "w").close(), "surplus: ", "legend"),
    "two for one image": (lambda f: shutil.copy(f(NAMES[0]), f(NAMES[0] + "_again")), "twice: ", NAMES[0] + "_again"),
    "truncated": (lambda f: os.truncate(f(NAMES[0]), 60), "unreadable: ", NAMES[0]),
    "JPEG": (lambda f: _save(np.full([48, 64], 7, np.uint8), f(NAMES[0]), format="JPEG"), "format: ", "JPEG"),
    "colours": (lambda f: _save(np.full([48, 64, 3], 7, np.uint8), f(NAMES[0])), "mode: ", "RGB"),
    "a palette": (lambda f: _palette(f(NAMES[0])), "mode: ", " P,"),
    "16 bits": (lambda f: _save(np.full([48, 64], 7, np.uint16), f(NAMES[0])), "mode: ", "I;16"),
    "4 bits": (lambda f: _save(np.full([48, 64], 7, np.uint8), f(NAMES[0]), bits=4), "mode: ", "4 bits"),
    "half size": (lambda f: _save(np.full([24, 32], 7, np.uint8), f(NAMES[0])), "size: ", "32x24"),
    "turned": (lambda f: _save(np.full([64, 48], 7, np.uint8), f(NAMES[0])), "size: ", "48x64"),
    "trainIds": (lambda f: _save(np.full([48, 64], 3, np.uint8), f(NAMES[0])), "ids: ", "trainIds"),
    "unlabelled": (lambda f: _save(np.full([48, 64], 0, np.uint8), f(NAMES[0])), "ids: ", "holds 0"),
    "an id that is not scored": (lambda f: _save(np.full([48, 64], 29, np.uint8), f(NAMES[0])), "ids: ", "holds 29"),
    "255": (lambda f: _save(np.full([48, 64], 255, np.uint8), f(NAMES[0])), "ids: ", "holds 255"),
}


@pytest.mark.parametrize("case", sorted(FAULTS))
def test_a_fault_is_one_line_that_names_the_file(written, root, tmp_path, case):
    damage, begins, holds = FAULTS[case]
    folder = str(tmp_path / "copy" / "deeper")
    shutil.copytree(written, folder)
    damage(lambda name: os.path.join(folder, name + "_labelIds.png"))
    told, good = submission.faults(str(tmp_path / "copy"), submission.images_of_split(root, "test"))
    line, = told
    assert line.startswith(begins) and holds in line and "\n" not in line, line
    assert good == (3 if begins == "surplus: " else 2)


def test_the_check_ends_with_exit_code_1_and_a_line_a_fault(written, root, tmp_path):
    folder = str(tmp_path / "copy")
    shutil.copytree(written, folder)
    os.remove(os.path.join(folder, NAMES[2] + "_labelIds.png"))
    Image.new("RGB", (64, 48)).save(os.path.join(folder, NAMES[0] + "_labelIds.png"))
    code, output, errors = run("check_submission", folder, "--data_dir=" + root)
    assert code == 1 and errors == ""
    lines = output.splitlines()
    assert [line.split(":")[0] for line in lines[:-1]] == ["missing", "mode"]
    assert lines[-1].startswith("1 of 3 images")
    assert "is not a folder" in failed(run("check_submission", folder + "x", "--data_dir=" + root))


def test_one_bad_image_does_not_stop_the_others_and_is_listed(trained, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # a phone held upright: 30 wide and 50 high to the viewer
    photo = np.random.RandomState(0).randint(0, 255, [30, 50, 3], dtype=np.uint8)
    Image.fromarray(photo).save(str(folder / "phone.jpg"), exif=exif)
    (folder / "broken.png").write_text("no picture")
    Image.fromarray(photo).save(str(folder / "cut.png"))
    os.truncate(str(folder / "cut.png"), 900)
    out = tmp_path / "out"
    code, output, errors = run("predict", "--model_dir=" + trained[0], "--output_dir={}".format(out),
                               "--on_bad_image=skip", folder)
    assert code == 1, errors
    assert "1 image(s)" in output and "2 image(s) skipped" in output
    assert str(folder / "broken.png") in output and str(folder / "cut.png") in output
    assert sorted(os.listdir(str(out))) == ["legend.png", "phone_labelIds.png", "phone_overlay.png"]
    assert Image.open(str(out / "phone_labelIds.png")).size == Image.open(str(out / "phone_overlay.png")).size == (30, 50)


def test_bad_images_are_found_before_tensorflow_is_imported(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    (tmp_path / "broken.png").write_text("no picture")
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    for arguments, word in ((["broken.png"], "broken.png"), (["nowhere"], "nowhere"), ([], "no image named"),
                            (["--submission", "broken.png"], "CITY_SEQUENCE_FRAME")):
        result = subprocess.run(
            [sys.executable, os.path.join(ROOT, "scripts", "predict.py"), "--model_dir=x", "--output_dir=out"] + arguments,
            env=environment, cwd=str(tmp_path), stderr=subprocess.PIPE, universal_newlines=True)
        assert result.returncode in (1, 2) and word in result.stderr and len(result.stderr.splitlines()) == 1, result.stderr
    assert not (tmp_path / "out").exists()
