"""Weight files of every odd kind, as bytes, written without the libraries that would refuse to."""

import io
import json
import pickle
import struct
import tarfile
import warnings
import zipfile

import numpy as np

ARRAY = np.arange(6, dtype=np.float32)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npy_header(text, content=b""):
    text = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def npy_claiming(shape):
    return npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,))


def archive(*members, **options):
    """A zip archive of (name, content)."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", **options) as file:
        warnings.simplefilter("ignore")  # a name twice
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def inflating(gigabytes):
    """A zip archive whose member claims so many gigabytes, and is a few bytes."""
    content = bytearray(archive(("w.npy", npy(ARRAY))))
    place = content.find(b"PK\x01\x02")  # the directory at the end, version 2.0: sizes at 20 and 24
    content[place + 24 : place + 28] = struct.pack("<I", min(gigabytes << 30, 2**32 - 1))
    return bytes(content)


def encrypted():
    content = bytearray(archive(("w.npy", npy(ARRAY))))
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def tar(name, mode="w"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as file:
        member = tarfile.TarInfo(name)
        member.size = 4
        file.addfile(member, io.BytesIO(b"data"))
    return buffer.getvalue()


def tensors(content=b"\0" * 16, length=None, **entries):
    """A safetensors file: entries name=(data_offsets, shape, dtype), whatever the content."""
    header = json.dumps({name: {"dtype": kind, "shape": shape, "data_offsets": offsets}
                         for name, (offsets, shape, kind) in entries.items()}).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + content


class Trap:
    """Makes a file when it is unpickled."""

    def __reduce__(self):
        return open, ("trap-was-sprung", "w")


def pickled():
    return pickle.dumps({"w": Trap()}, protocol=2)


def object_array():
    array = np.empty(1, object)
    array[0] = Trap()
    return archive(("w.npy", npy(array)))
