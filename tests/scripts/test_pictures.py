"""Pictures show the right colours in the right places; the curve and the history show what was measured."""

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the scripts need matplotlib")

from PIL import Image  # noqa: E402

from scripts import history, pictures  # noqa: E402

COLORS = np.array([[200, 0, 0], [0, 200, 0]], np.uint8)
NAMES = ("road", "sky")


def test_an_overlay_mixes_class_colours_in_and_greys_what_is_ignored():
    image = np.full([2, 2, 3], 100, np.uint8)
    painted = pictures.overlay(image, np.array([[0, 1], [255, 0]]), COLORS, opacity=0.5)
    assert painted.tolist() == [[[150, 50, 50], [50, 150, 50]], [[50, 50, 50], [150, 50, 50]]]
    assert image.max() == 100  # the input is left alone


def test_a_triple_holds_image_truth_and_prediction_side_by_side_over_a_legend():
    image = np.zeros([60, 600, 3], np.uint8)  # wide enough not to be enlarged
    truth, prediction = np.zeros([60, 600], np.int32), np.ones([60, 600], np.int32)
    picture = np.asarray(pictures.triple(image, truth, prediction, COLORS, NAMES))
    starts = [pictures.MARGIN + place * (600 + pictures.MARGIN) for place in range(3)]
    middle = picture.shape[0] // 2
    panels = [picture[middle, start + 300].tolist() for start in starts]
    assert panels == [[0, 0, 0], [120, 0, 0], [0, 120, 0]]
    below = picture[-40:].reshape(-1, 3)
    assert all((below == color).all(axis=1).any() for color in COLORS), "both classes are in the legend"


def test_a_legend_names_every_class_and_breaks_into_rows():
    wide, narrow = pictures.legend(COLORS, NAMES, 400), pictures.legend(COLORS, NAMES, 70)
    assert wide.size[0] == 400 and narrow.size[0] == 70
    assert narrow.size[1] == 2 * wide.size[1]


def test_a_sheet_shows_every_panel_in_order_and_breaks_captions_that_are_too_long():
    shades = ((250, 0, 250), (0, 250, 250), (250, 250, 0))
    panels = [np.broadcast_to(np.uint8(shade), [20, 30, 3]).copy() for shade in shades]
    cells = [(["a caption that is much wider than its panel", "unbroken" * 9], panel) for panel in panels]
    picture = np.asarray(pictures.sheet(cells, 2, 70, "title", (COLORS, NAMES, [1])))
    assert picture.shape[1] == 2 * (60 + 2 * pictures.MARGIN)  # enlarged by 2, the whole factor that fits into 70
    where = [np.argwhere((picture == shade).all(axis=-1)) for shade in shades]
    assert [len(places) for places in where] == [40 * 60] * 3
    tops = [places.min(axis=0).tolist() for places in where]
    assert tops[0][0] == tops[1][0] < tops[2][0] and tops[0][1] == tops[2][1] < tops[1][1]
    assert (picture == COLORS[1]).all(axis=-1).any() and not (picture == COLORS[0]).all(axis=-1).any()


def test_a_saved_picture_has_the_same_pixels_and_leaves_no_partial_file(tmp_path):
    labels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    pictures.save(labels, str(tmp_path / "labels.png"))
    assert np.array_equal(np.asarray(Image.open(tmp_path / "labels.png")), labels)
    assert [path.name for path in tmp_path.iterdir()] == ["labels.png"]


def test_history_goes_on_behind_the_step_that_is_resumed(tmp_path):
    first = history.History(str(tmp_path))
    for step in (10, 20, 30):
        first.add(step=step, loss=1.0 / step)
    with open(tmp_path / history.FILE_NAME, "a") as file:
        file.write('{"step": 4')  # the machine stopped here
    second = history.History(str(tmp_path), step=20)
    second.add(step=21, loss=0.5)
    assert [entry["step"] for entry in history.read(str(tmp_path))] == [10, 20, 21]


def test_the_curve_is_drawn_with_and_without_evaluations(tmp_path):
    entries = [{"step": step, "loss": 1.0 / step} for step in range(1, 9)]
    history.draw_curve(entries, str(tmp_path / "plain.png"))
    history.draw_curve(entries + [{"step": 8, "miou": 0.5}], str(tmp_path / "scored.png"))
    plain, scored = (np.asarray(Image.open(tmp_path / name)) for name in ("plain.png", "scored.png"))
    assert plain.shape == scored.shape and (plain != scored).any()
    orange = (np.abs(scored[..., :3].astype(int) - (255, 127, 14)).max(axis=-1) < 8).sum()
    assert orange > 20  # the mIoU's own colour
