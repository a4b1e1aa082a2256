"""Weight files: arrays by name, whatever the container. Nothing in a file is executed.

    TensorFlow checkpoint   a prefix that .index and .data files belong to, or one file of TensorFlow's first format
    .npz                    NumPy's archive; pickled objects in it are refused
    .safetensors            where the package safetensors is installed
    .pth, .pt               where PyTorch is installed; tensors in dicts only (its `weights_only`)

What a file is, its bytes say and not its name: a download may be called anything.
"""

import os
import re
import zipfile

import numpy as np
import tensorflow.compat.v1 as tf

from models.pretrained import checkpoint_index

# The first pickle of a PyTorch file from before its zip files: a number that it checks itself.
_TORCH_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_TABLE_END = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"  # of TensorFlow's tables: .index files, and checkpoints in one file

_LARGE, _RATIO = 1 << 30, 100  # bytes that any archive may unpack to, and how many times its own size above that

_UNPACK = "unpack it and name the file with the weights in it"
_FOREIGN = (
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ", "an xz archive", _UNPACK),
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"Rar!", "a rar archive", _UNPACK),
    (b"\x89HDF", "an HDF5 file", "save its arrays as .npz or .safetensors"),
    (b"\x93NUMPY", "a single NumPy array (.npy)", "save all arrays by name with numpy.savez"),
    (b"version https://git-lfs", "a Git LFS pointer and holds no weights", "fetch the file that it stands for"),
)

# Under which of its keys a PyTorch training script keeps the weights.
_STATE_KEYS = ("state_dict", "model_state_dict", "model", "net")


class WeightsFileError(ValueError):
    """A file cannot be read as weights; the message is one line with the path and what to do."""


def read(path):
    """The arrays of a weights file.

    Args:
      path: a file, or the prefix of a TensorFlow checkpoint (or any of its files).
    Returns:
      dict from name to array. A `:0` at the end of a name is dropped.
    Raises:
      WeightsFileError: missing, cut off, damaged, an archive, pickled, or nothing that is known.
    """
    reader, path = _reader(path)
    arrays = {}
    for name, array in reader(path).items():
        name = re.sub(r":0$", "", name)
        if name in arrays:
            raise WeightsFileError("{} holds {} twice, once with :0 at its end: leave one out".format(path, name))
        arrays[name] = array
    if not arrays:
        raise WeightsFileError("{} holds no arrays".format(path))
    return arrays


def _reader(path):
    """(function that reads it, path to give it)."""
    if os.path.isdir(path):
        raise WeightsFileError("{} is a folder: name the file, or the checkpoint's prefix, in it".format(path))
    part = re.match(r"(.*)\.(index|data-\d+-of-\d+|meta)$", path)
    prefix = part.group(1) if part else path
    if os.path.exists(prefix + ".index") or (part and part.group(2) != "meta"):
        return _read_checkpoint, prefix
    if not os.path.exists(path):
        raise WeightsFileError("there is no file {0} and no checkpoint with that prefix ({0}.index)".format(path))
    head, tail = _ends(path)
    if not head:
        raise WeightsFileError("{} is empty: fetch it again".format(path))
    for sign, what, remedy in _FOREIGN:
        if head.startswith(sign):
            raise WeightsFileError("{} is {}: {}".format(path, what, remedy))
    if head[257:262] == b"ustar":
        _refuse_outside(path, [head[:100].split(b"\0")[0].decode("utf-8", "replace")])
        raise WeightsFileError("{} is a tar archive: {}".format(path, _UNPACK))
    if re.match(br"\s*<(!doctype|html|\?xml)", head, re.IGNORECASE):
        raise WeightsFileError("{} is a web page and no weights: fetch the file itself".format(path))
    if head.startswith(b"PK"):
        return _zip_reader(path), path
    if head.startswith(_TORCH_LEGACY):
        return _read_torch, path
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        raise WeightsFileError("{} is a pickle, which is not read since loading one can run any code: save its arrays as "
                               ".npz or .safetensors".format(path))
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 30:
        return _read_safetensors, path
    if tail == _TABLE_END:
        return _read_checkpoint, path
    raise WeightsFileError("{} is no TensorFlow checkpoint, .npz, .safetensors or PyTorch file, or it is cut off: compare "
                           "its size with the original's ({:,} bytes here)".format(path, os.path.getsize(path)))


def _ends(path):
    with open(path, "rb") as file:
        head = file.read(512)
        file.seek(max(0, os.path.getsize(path) - 8))
        return head, file.read()


def _zip_reader(path):
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except Exception as error:  # BadZipFile, OSError, ValueError, NotImplementedError, struct.error ... by damage
        raise _damaged(path, error) from error
    names = [member.filename for member in members]
    if not names:
        raise WeightsFileError("{} holds no arrays: compare its size with the original's ({} bytes here)".format(
            path, os.path.getsize(path)))
    _refuse_outside(path, names)
    twice = sorted(name for name in set(names) if names.count(name) > 1)
    if twice:
        raise WeightsFileError("{} holds {} twice: save it again".format(path, twice[0]))
    if any(member.flag_bits & 1 for member in members):
        raise WeightsFileError("{} is encrypted: {}".format(path, _UNPACK))
    unpacked = sum(member.file_size for member in members)
    if unpacked > max(_LARGE, _RATIO * os.path.getsize(path)):
        raise WeightsFileError("{} would be {:,} bytes unpacked, above {} times its own {:,}: made to fill memory, or all "
                               "alike: save it without compression".format(path, unpacked, _RATIO, os.path.getsize(path)))
    if any(re.search(r"(^|/)data\.pkl$", name) for name in names):
        return _read_torch
    if all(name.endswith(".npy") for name in names):
        return _read_npz
    raise WeightsFileError("{} is a zip archive: {}".format(path, _UNPACK))


def _refuse_outside(path, names):
    """Nothing is unpacked here; but who is told to unpack a file should not be led to write beside its folder."""
    outside = [name for name in names if re.match(r"([A-Za-z]:)?[/\\]", name) or ".." in re.split(r"[/\\]", name)]
    if outside:
        raise WeightsFileError("{} is an archive with a path that leads out of its folder, {!r}: do not unpack it, and fetch "
                               "the weights elsewhere".format(path, outside[0]))


def _read_npz(path):
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    # What NumPy raises of a damaged header is of many kinds: tokenize's, SyntaxError, MemoryError of a claimed size, ...
    except Exception as error:
        if "Object arrays" in str(error) or "allow_pickle" in str(error):
            raise WeightsFileError("{} holds pickled objects, which are not read since loading them can run any code: save "
                                   "plain arrays".format(path)) from error
        raise _damaged(path, error) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # NumPy hands out the bytes of what is no array
            raise _damaged(path, "{} is no array".format(name))
    return arrays


def _read_safetensors(path):
    try:
        from safetensors import numpy as safetensors
    except ImportError as error:
        raise WeightsFileError("{} is a safetensors file: install the package safetensors to read it".format(path)) from error
    try:
        return safetensors.load_file(path)
    except Exception as error:  # SafetensorError, or what NumPy says of a dtype that it lacks
        raise _damaged(path, error) from error


def _read_checkpoint(path):
    try:
        if os.path.exists(path + ".index"):
            checkpoint_index.require_sound(path + ".index")
        reader = tf.train.load_checkpoint(path)
        return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}
    except Exception as error:  # by version and by damage
        raise _damaged(path, error) from error


def _read_torch(path):
    try:
        import torch
    except ImportError as error:
        raise WeightsFileError("{} is a PyTorch file: install torch to read it, or save its state_dict where torch is with "
                               "safetensors.torch.save_file".format(path)) from error
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle's, zipfile's and torch's own, by version and by damage
        if "eights only" in str(error) or "weights_only" in str(error):
            raise WeightsFileError("{} holds pickled objects besides tensors, which are not read since loading them can run "
                                   "any code: save the state_dict alone".format(path)) from error
        raise _damaged(path, error) from error
    state = _state_dict(loaded, path)
    return {name: _torch_array(tensor, torch) for name, tensor in state.items()}


def _torch_array(tensor, torch):
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _state_dict(loaded, path):
    for candidate in [loaded] + [loaded[key] for key in _STATE_KEYS if isinstance(loaded, dict) and key in loaded]:
        if isinstance(candidate, dict) and candidate and all(hasattr(v, "detach") for v in candidate.values()):
            return candidate
    keys = ", ".join(map(str, list(loaded)[:6])) if isinstance(loaded, dict) else type(loaded).__name__
    raise WeightsFileError("{} holds no dict of tensors, at the top or under {}: it has {}".format(
        path, ", ".join(_STATE_KEYS), keys))


def _damaged(path, error):
    text = " ".join(str(error).split()) or type(error).__name__
    return WeightsFileError("{} is cut off or damaged ({}): fetch it again".format(path, text[:200]))
