"""Weight files of every kind are read, and whatever is no such file ends in one line; nothing in a file is executed."""

import gzip
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

from models import pretrained
from tests.models.test_pretrained_conversion import save

ARRAYS = {"a/weights": np.arange(6000, dtype=np.float32).reshape(20, 300), "b": np.float64([1.5]), "step": np.array(7)}


def save_torch(path, content, **options):
    torch = pytest.importorskip("torch")
    torch.save(content, path, **options)
    return path


def tensors():
    torch = pytest.importorskip("torch")
    return {name: torch.from_numpy(array.copy()) for name, array in ARRAYS.items()}


WRITERS = {
    "npz": lambda path: save(path + ".npz", ARRAYS, "npz"),
    "npz of another name": lambda path: os.rename(save(path + ".npz", ARRAYS, "npz"), path) or path,
    "safetensors": lambda path: save(path, ARRAYS, "safetensors"),
    "ckpt": lambda path: save(path, ARRAYS, "ckpt"),
    "index of a ckpt": lambda path: save(path, ARRAYS, "ckpt") + ".index",
    "data of a ckpt": lambda path: save(path, ARRAYS, "ckpt") + ".data-00000-of-00001",
    "ckpt in one file": lambda path: save(path, ARRAYS, "ckpt1"),
    "pth": lambda path: save_torch(path, tensors()),
    "old pth": lambda path: save_torch(path, tensors(), _use_new_zipfile_serialization=False),
    "trained pth": lambda path: save_torch(path, {"epoch": 3, "state_dict": tensors()}),
}


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_arrays_come_back_whatever_the_container(kind, tmp_path):
    found = pretrained.read(WRITERS[kind](str(tmp_path / "weights")))
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_bfloat16_tensors_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    path = save_torch(str(tmp_path / "x"), {"w": torch.tensor([1.5, -2.]).bfloat16()})
    np.testing.assert_array_equal(pretrained.read(path)["w"], np.float32([1.5, -2]))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("kind", ["npz", "safetensors", "index of a ckpt", "data of a ckpt", "ckpt in one file", "pth",
                                  "old pth"])
def test_a_file_that_was_cut_off_is_named(kind, share, tmp_path):
    path = WRITERS[kind](str(tmp_path / "weights"))
    with open(path, "r+b") as file:
        file.truncate(int(os.path.getsize(path) * share))
    assert "cut off" in refused(path)


@pytest.mark.parametrize("kind", ["npz", "ckpt in one file", "data of a ckpt"])
def test_a_file_that_was_overwritten_is_named(kind, tmp_path):
    path = WRITERS[kind](str(tmp_path / "weights"))
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"junk" * 40)
    assert "damaged" in refused(path)


def refused(path):
    """The message with which a path is refused: one line that names it."""
    with pytest.raises(pretrained.WeightsFileError) as error:
        pretrained.read(path)
    message = str(error.value)
    assert "\n" not in message and os.path.basename(path).split(".")[0] in message
    return message


def archive(kind):
    def write(path):
        inner = path + ".inner"
        with open(inner, "wb") as file:
            file.write(b"weights" * 100)
        if kind == "zip":
            with zipfile.ZipFile(path, "w") as opened:
                opened.write(inner, "resnet/model.ckpt")
        elif kind == "gzip":
            with gzip.open(path, "wb") as opened:
                opened.write(b"weights" * 100)
        else:
            with tarfile.open(path, "w:" + ("gz" if kind == "tar.gz" else "")) as opened:
                opened.add(inner, "model.ckpt")

    return write


def content(value):
    def write(path):
        with open(path, "wb") as file:
            file.write(value)

    return write


WRONG = {
    "nothing there": (lambda path: None, "there is no file"),
    "a folder": (os.mkdir, "is a folder"),
    "an empty file": (content(b""), "is empty"),
    "text": (content(b"some weights, honestly"), "no TensorFlow checkpoint"),
    "noise": (content(np.random.RandomState(0).bytes(5000)), "no TensorFlow checkpoint"),
    "a web page": (content(b"\n<!DOCTYPE html><html>sign in</html>"), "web page"),
    "a pointer": (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:0"), "Git LFS pointer"),
    "a Keras file": (content(b"\x89HDF\r\n\x1a\n" + b"0" * 100), "HDF5"),
    "one array": (lambda path: os.rename(path + ".npy", path) if np.save(path, np.zeros(3)) is None else None, ".npy"),
    "a zip archive": (archive("zip"), "zip archive: unpack"),
    "a gzip archive": (archive("gzip"), "gzip archive: unpack"),
    "a tar archive": (archive("tar"), "tar archive: unpack"),
    "a tar.gz archive": (archive("tar.gz"), "gzip archive: unpack"),
    "no arrays": (lambda path: os.rename(save(path + ".npz", {}, "npz"), path), "holds no arrays"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_holds_no_weights_is_refused_in_one_line(case, tmp_path):
    write, message = WRONG[case]
    path = str(tmp_path / "weights")
    write(path)
    assert any(part in refused(path) for part in message.split("|"))


class Trap(object):
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("kind", ["pickle", "old pickle", "npz", "pth", "old pth"])
def test_nothing_in_a_file_is_executed(kind, tmp_path):
    path, touched = str(tmp_path / "weights"), str(tmp_path / "touched")
    if "pickle" in kind:
        with open(path, "wb") as file:
            pickle.dump({"w": Trap(touched)}, file, protocol=0 if kind == "old pickle" else 2)
    elif kind == "npz":
        trap = np.empty(1, object)
        trap[0] = Trap(touched)
        with zipfile.ZipFile(path, "w") as file:
            np.save(str(tmp_path / "w.npy"), trap, allow_pickle=True)
            file.write(str(tmp_path / "w.npy"), "w.npy")
    else:
        save_torch(path, dict(tensors(), w=Trap(touched)), _use_new_zipfile_serialization=kind == "pth")
    message = refused(path)
    assert "can run any code" in message or kind == "old pickle"
    assert not os.path.exists(touched)
    if kind == "npz":  # the trap is one: NumPy falls into it where it is allowed to
        np.load(path, allow_pickle=True)["w"]
        assert os.path.exists(touched)


def test_a_pytorch_file_without_pytorch_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    path = str(tmp_path / "weights")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}.")
    assert "install torch" in refused(path) and "safetensors" in refused(path)


def test_a_pytorch_file_without_weights_says_what_it_has(tmp_path):
    path = save_torch(str(tmp_path / "weights"), {"epoch": 3, "best": 0.5})
    assert "epoch" in refused(path)
