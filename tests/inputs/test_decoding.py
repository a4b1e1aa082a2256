"""Reading in the graph against PIL, and that each fault found there names the file too."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from PIL import Image

from inputs import cityscapes, decoding, labels
from tests.inputs import files


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


def graph_error(tensors, *words):
    """The graph fails, and `data_error` makes one line of it with all these words."""
    with pytest.raises(tf.errors.OpError) as caught:
        run(tensors)
    error = decoding.data_error(caught.value)
    assert isinstance(error, cityscapes.DataError), caught.value
    assert "\n" not in str(error)
    for word in words:
        assert str(word) in str(error), error


def test_a_pair_is_read_as_pil_reads_it_with_ids_mapped(tmp_path):
    image, label = files.write_pair(tmp_path, "a", size=(17, 23))
    got_image, got_label = run(decoding.read_example(*files.paths(tmp_path, "a")))
    assert got_image.dtype == np.uint8 and got_label.dtype == np.int32
    np.testing.assert_array_equal(got_image, image)
    np.testing.assert_array_equal(got_label, labels.label_id_to_train_id[label])


def test_train_id_files_are_taken_as_they_are(tmp_path):
    path = str(tmp_path / "t.png")
    values = np.array([[0, 18, 255], [3, 4, 5]], np.uint8)
    Image.fromarray(values).save(path)
    np.testing.assert_array_equal(run(decoding.read_label(path, labels.TRAIN_ID_FILES)), values)
    values[0, 0] = 19
    Image.fromarray(values).save(path)
    graph_error(decoding.read_label(path, labels.TRAIN_ID_FILES), path, "19", "trainId")


def odd_images(folder):
    rng = np.random.RandomState(0)
    rgb = Image.fromarray(rng.randint(0, 256, (9, 14, 3)).astype(np.uint8))
    made = {
        "grey": rgb.convert("L"),
        "alpha": Image.fromarray(rng.randint(0, 256, (9, 14, 4)).astype(np.uint8)),
        "grey_alpha": rgb.convert("LA"),
        "palette": rgb.convert("P", palette=Image.Palette.ADAPTIVE, colors=40),
        "one_bit": rgb.convert("1"),
        "sixteen": Image.fromarray(rng.randint(0, 65536, (9, 14)).astype(np.uint16)),
        "rgb": rgb,
    }
    for name, image in made.items():
        path = os.path.join(str(folder), name + ".png")
        image.save(path)
        yield path
    path = os.path.join(str(folder), "upper.JPG")
    rgb.save(path, "jpeg", quality=95)
    yield path
    path = os.path.join(str(folder), "map.bmp")
    rgb.save(path)
    yield path


def test_images_of_every_kind_are_the_same_in_the_graph_and_in_python(tmp_path):
    for path in odd_images(tmp_path):
        with_pil = decoding.load_image(path)
        in_graph = run(decoding.read_image(path))
        assert with_pil.shape == in_graph.shape == (9, 14, 3) and with_pil.dtype == np.uint8, path
        # JPEG decoders may round differently.
        np.testing.assert_allclose(
            in_graph.astype(int), with_pil, atol=8 if path.endswith("JPG") else 0, err_msg=path
        )


def test_a_sixteen_bit_colour_png_keeps_its_high_bytes(tmp_path):
    cv2 = pytest.importorskip("cv2", reason="OpenCV writes the 16-bit colour file")
    path = str(tmp_path / "deep.png")
    values = np.random.RandomState(0).randint(0, 65536, (5, 6, 3)).astype(np.uint16)
    cv2.imwrite(path, values[:, :, ::-1])
    np.testing.assert_array_equal(run(decoding.read_image(path)), values >> 8)
    np.testing.assert_array_equal(decoding.load_image(path), values >> 8)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("how", ["half", "tail", "flip", "empty", "text"])
def test_a_damaged_file_is_named_by_the_graph(tmp_path, how, which):
    files.write_pair(tmp_path, "a", size=(60, 80))
    paths = files.paths(tmp_path, "a")
    files.damage(paths[which], how)
    graph_error(decoding.read_example(*paths), paths[which])
    if which == 0 and how != "tail":  # without its last chunk every pixel is there: PIL asks for no more
        with pytest.raises(cityscapes.DataError, match="a_leftImg8bit.png"):
            decoding.load_image(paths[0])


def test_a_missing_file_is_named_by_the_graph(tmp_path):
    graph_error(decoding.read_image(str(tmp_path / "gone.png")), tmp_path / "gone.png")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "1", "LA", "I;16"])
def test_a_label_that_is_not_8_bit_grey_is_named_by_the_graph(tmp_path, mode):
    path = str(tmp_path / "label.png")
    Image.new(mode, (20, 12)).save(path)
    graph_error(decoding.read_label(path), path, "8-bit single-channel")


def test_an_unknown_id_is_named_by_the_graph(tmp_path):
    label = np.zeros((12, 20), np.uint8)
    label[5, 6] = 200
    files.write_pair(tmp_path, "a", label=label)
    paths = files.paths(tmp_path, "a")
    graph_error(decoding.read_example(*paths), paths[1], "200", "labelId")


def test_different_sizes_are_named_by_the_graph(tmp_path):
    files.write_pair(tmp_path, "a", label=np.zeros((12, 21), np.uint8))
    paths = files.paths(tmp_path, "a")
    graph_error(decoding.read_example(*paths), *paths + ("20x12", "21x12"))


def test_other_errors_are_not_taken_for_data_errors():
    assert decoding.data_error(tf.errors.InvalidArgumentError(None, None, "shapes do not match")) is None


def test_list_images_takes_a_file_or_a_folder_and_names_an_empty_one(tmp_path):
    made = sorted(odd_images(tmp_path))
    (tmp_path / "notes.txt").write_text("no image")
    assert decoding.list_images(tmp_path) == made
    assert decoding.list_images(made[0]) == [made[0]]
    (tmp_path / "empty").mkdir()
    with pytest.raises(cityscapes.DataError, match="empty"):
        decoding.list_images(tmp_path / "empty")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_read_the_right_way_up(tmp_path, orientation):
    upright = np.zeros((24, 40, 3), np.uint8)
    upright[:12, :20], upright[:12, 20:], upright[12:, :20] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    # What a camera stores so that the orientation brings it back, from the EXIF standard.
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.transpose(1, 0, 2), 6: np.rot90(upright), 7: np.rot90(upright[::-1]), 8: np.rot90(upright, 3),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name, tolerance in (("photo.png", 0), ("photo.jpg", 40)):
        path = str(tmp_path / name)
        fine = {"quality": 95, "subsampling": 0} if tolerance else {}
        Image.fromarray(np.ascontiguousarray(stored)).save(path, exif=exif, **fine)
        read = decoding.load_image(path)
        assert read.shape == upright.shape
        quarter = (slice(2, 10), slice(2, 18)), (slice(2, 10), slice(22, 38)), (slice(14, 22), slice(2, 18))
        for place in quarter:
            np.testing.assert_allclose(read[place].astype(int), upright[place], atol=tolerance)
        np.testing.assert_allclose(decoding.load_image(path, upright=False).astype(int), run(decoding.read_image(path)),
                                   atol=20 if tolerance else 0)
