"""What is fuzzed: for each reader sound files to spoil, and a check of one spoilt file against an independent reading.

A check returns "read" or "refused"; anything else that happens, an `AssertionError` above all, is a fault. What a reader
accepts has to be what PIL, NumPy, or the format's few rules read out by hand say that it is.
"""

import io
import json
import os
import zipfile

import numpy as np
import tensorflow.compat.v1 as tf
from PIL import Image

from inputs import decoding, labels, photographs
from inputs.image_files import DataError
from models import pretrained
from tests.bad_input import pictures
from tests.fuzz import mutation
from tests.models.test_pretrained_conversion import save

ARRAYS = {"a/weights": np.arange(600, dtype=np.float32).reshape(20, 30), "b": np.float64([1.5]), "step": np.array(7)}


class Reader(object):
    """One of the things that are fuzzed.

    sound: the bytes of sound files, to begin with; `spoil(rng)` makes a spoilt one of them.
    check(path): see above; `name` is what the file is called, as readers look at extensions.
    """

    name = "file"

    def __init__(self, folder):
        self.path = os.path.join(folder, self.name)
        self.sound = self.files(folder)

    def spoil(self, rng):
        return mutation.mutated(self.sound[rng.randint(len(self.sound))], rng, self.sound)

    def write(self, content):
        with open(self.path, "wb") as file:
            file.write(content)


class _GraphReader(Reader):
    """Reads in a graph, and turns TensorFlow's errors into those that users see; all else is a fault."""

    def __init__(self, folder):
        super(_GraphReader, self).__init__(folder)
        self._file = tf.placeholder(tf.string, [])
        self._pixels = self.read(self._file)
        self._session = tf.Session(config=tf.ConfigProto(device_count={"GPU": 0}, intra_op_parallelism_threads=1))

    def in_graph(self):
        try:
            return self._session.run(self._pixels, {self._file: self.path})
        except tf.errors.OpError as error:
            told = decoding.data_error(error)
            assert told is not None, "no input error: {}".format(error)
            assert self.path in str(told) and "\n" not in str(told), told
            return None


class Images(_GraphReader):
    """Images as training and as prediction read them; the first file of a spoilt animation counts."""

    def read(self, path):
        return decoding.read_image(path)

    def check(self):
        in_graph, in_python = self.in_graph(), None
        try:
            in_python = photographs.load_image(self.path, upright=False)
        except DataError as error:
            assert self.path in str(error) and "\n" not in str(error), error
        for pixels in (in_graph, in_python):
            assert pixels is None or (pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3)
        if in_graph is not None and in_python is not None:
            assert in_graph.shape == in_python.shape, (in_graph.shape, in_python.shape)
            if not self.alike(in_graph, in_python):
                return "read, damage concealed"
        return "refused" if in_graph is None and in_python is None else (
            "read" if in_graph is not None and in_python is not None else "read by one of two, refused by the other")

    def alike(self, in_graph, in_python):
        np.testing.assert_array_equal(in_graph, in_python)
        return True


class Pngs(Images):
    name = "image.png"

    def files(self, folder):
        return [pictures.of(), pictures.of("L"), pictures.of("P"), pictures.of("1"), pictures.alpha(), pictures.of("LA"),
                pictures.sixteen_bits(), pictures.interlaced(), pictures.noise()] + _photographs("PNG")

    def spoil(self, rng):
        how, content = rng.randint(4), self.sound[rng.randint(len(self.sound))]
        if how == 0:
            return mutation.with_spoilt_pixels(content, rng)
        content = mutation.mutated(content, rng, self.sound)
        return mutation.with_png_checksums(content) if how < 3 else content


class Jpegs(Images):
    """Two builds of libjpeg: an inverse transform of their own each, so pixels agree to some steps of 255 only.

    A JPEG has no checksum. Damage in its coefficients is concealed by libjpeg, in either build in its way: such a file is
    read by all of PIL, OpenCV and TensorFlow, with pixels that nobody stored. These are counted apart and are no fault here.
    """

    name = "image.jpg"

    def files(self, folder):
        return [pictures.of(kind="JPEG", quality=95), pictures.of("L", "JPEG", quality=95),
                pictures.of(kind="JPEG", quality=90, progressive=True), pictures.of("CMYK", "JPEG", quality=95),
                pictures.turned("JPEG")] + _photographs("JPEG")

    def alike(self, in_graph, in_python):
        return np.abs(in_graph.astype(int) - in_python).mean() <= 12


class Labels(_GraphReader):
    name = "label.png"

    def files(self, folder):
        ids = np.arange(48 * 64).reshape(48, 64) // 96 % 34
        return [pictures.of(array=ids.astype(np.uint8)), pictures.of(array=np.full([48, 64], 7, np.uint8)), pictures.of("P")]

    spoil = Pngs.spoil

    def read(self, path):
        return decoding.read_label(path)

    def check(self):
        found = self.in_graph()
        if found is None:
            return "refused"
        with Image.open(self.path) as image:
            assert image.mode == "L", image.mode
            values = np.asarray(image)
        np.testing.assert_array_equal(found, labels.LABEL_ID_TABLE[values])
        assert found.min() >= 0
        return "read"


class _Weights(Reader):
    container = None

    def files(self, folder):
        path = save(os.path.join(folder, "sound" + (".npz" if self.container == "npz" else "")), ARRAYS, self.container)
        with open(path, "rb") as file:
            return [file.read()]

    def check(self):
        try:
            found = pretrained.read(self.path)
        except pretrained.WeightsFileError as error:
            assert self.path in str(error) and "\n" not in str(error), error
            return "refused"
        expected = self.by_hand()
        assert set(found) == set(expected), (sorted(found), sorted(expected))
        for name, array in expected.items():
            assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
            assert found[name].tobytes() == array.tobytes(), name
        return "read"


class Npz(_Weights):
    name, container = "weights.npz", "npz"

    def spoil(self, rng):
        if rng.randint(2):
            return mutation.npz_of_spoilt_arrays(self.sound[0], rng)
        return super(Npz, self).spoil(rng)

    def by_hand(self):
        with zipfile.ZipFile(self.path) as archive:
            assert archive.testzip() is None
            return {name[:-4] if name.endswith(".npy") else name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                    for name in archive.namelist()}


class Safetensors(_Weights):
    name, container = "weights.safetensors", "safetensors"
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U64": "<u8",
             "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?"}

    def by_hand(self):
        with open(self.path, "rb") as file:
            content = file.read()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8 : 8 + length].decode("utf-8")), content[8 + length :]
        header.pop("__metadata__", None)
        arrays = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            array = np.frombuffer(data[start:end], self.types[entry["dtype"]]).reshape(entry["shape"])
            arrays[name[:-2] if name.endswith(":0") else name] = array
        return arrays


class Checkpoints(_Weights):
    """Both files of a checkpoint. Every value has a checksum: what is read is what was written, or it is refused."""

    name = "weights.index"

    def files(self, folder):
        prefix = save(os.path.join(folder, "sound"), ARRAYS, "ckpt")
        contents = []
        for end in (".index", ".data-00000-of-00001"):
            with open(prefix + end, "rb") as file:
                contents.append(file.read())
        return contents

    def spoil(self, rng):
        index, values = self.sound
        if rng.randint(2):
            return mutation.mutated(index, rng), values
        return index, mutation.mutated(values, rng)

    def write(self, content):
        super(Checkpoints, self).write(content[0])
        with open(self.path[: -len(".index")] + ".data-00000-of-00001", "wb") as file:
            file.write(content[1])

    def by_hand(self):
        return ARRAYS

    def check(self):
        self.path, path = self.path[: -len(".index")], self.path
        try:
            return super(Checkpoints, self).check()
        finally:
            self.path = path


class OldCheckpoints(_Weights):
    name, container = "weights.ckpt", "ckpt1"

    def by_hand(self):
        return ARRAYS


class Indices(Checkpoints):
    """A checkpoint whose index says what nobody wrote, under a checksum that fits: no crash is all that can be asked."""

    def spoil(self, rng):
        return mutation.index_of_spoilt_entries(self.sound[0], rng), self.sound[1]

    def by_hand(self):
        reader = tf.train.load_checkpoint(self.path)
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _photographs(kind):
    """Parts of real photographs, where the environment names some."""
    root, found = os.environ.get("TOWERS_CAMVID"), []
    if root and os.path.isdir(root):
        for path in photographs.list_images(os.path.join(root, "leftImg8bit"))[:2]:
            part = photographs.load_image(path)[100:148, 100:164]
            found.append(pictures.of(kind=kind, array=np.ascontiguousarray(part)))
    return found


READERS = {"png": Pngs, "jpeg": Jpegs, "label": Labels, "npz": Npz, "safetensors": Safetensors, "checkpoint": Checkpoints,
           "old_checkpoint": OldCheckpoints, "checkpoint_index": Indices}
