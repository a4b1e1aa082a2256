"""Looks through a checkpoint's .index before TensorFlow does, whose reader ends the process where an entry is malformed.

The file is a table: blocks of (key, value), an index of the blocks, and a footer of 48 bytes that says where that is. The
value of key '' is a BundleHeaderProto, each other a BundleEntryProto. Checksums are left to TensorFlow.
"""

from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

_FOOTER = 48
# What a value on disk can have: no references, which have numbers above 100, and no handles.
_TYPES = {number for name, number in types_pb2.DataType.items()
          if 0 < number < 100 and name not in ("DT_RESOURCE", "DT_VARIANT")}


def require_sound(path):
    """ValueError, with what is wrong, unless every entry of a .index file can be parsed and has a possible shape and type."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    try:
        for key, value in _entries(content):
            if key:
                _require_possible(key, tensor_bundle_pb2.BundleEntryProto.FromString(bytes(value)))
            else:
                tensor_bundle_pb2.BundleHeaderProto.FromString(bytes(value))
    except Exception as error:  # protobuf's DecodeError is of another class from version to version
        raise ValueError("its index is malformed: {}".format(" ".join(str(error).split()) or type(error).__name__)) from error


def _require_possible(key, entry):
    size = 1
    for dim in entry.shape.dim:
        size *= dim.size
        if dim.size < 0 or size >= 1 << 62:
            raise ValueError("{!r} has a shape that none can have".format(bytes(key)))
    if entry.shape.unknown_rank or len(entry.shape.dim) > 254 or entry.dtype not in _TYPES:
        raise ValueError("{!r} has a shape or a type that none can have".format(bytes(key)))
    if entry.offset < 0 or entry.size < 0 or entry.shard_id < 0:
        raise ValueError("{!r} lies before the start of its file".format(bytes(key)))
    for part in entry.slices:
        if len(part.extent) != len(entry.shape.dim) or any(
                extent.start < 0 or (extent.HasField("length") and extent.length < 1) for extent in part.extent):
            raise ValueError("{!r} has a part that lies outside of it".format(bytes(key)))


def _entries(content):
    footer, at = content[-_FOOTER:], 0
    for _ in range(2):  # where a block of statistics is, which is empty
        _, at = _varint(footer, at)
    for _, handle in _block(content, footer, at):
        for pair in _block(content, handle, 0):
            yield pair


def _block(content, handle, at):
    """The (key, value) pairs of the block at a handle, its offset and size; none of a compressed one."""
    offset, at = _varint(handle, at)
    size, _ = _varint(handle, at)
    block = content[offset : offset + size]
    if content[offset + size]:
        return
    restarts = int.from_bytes(block[-4:], "little")
    at, end, key = 0, len(block) - 4 * (restarts + 1), b""
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        length, at = _varint(block, at)
        if at + own + length > end or shared > len(key):
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + length]
        at += own + length


def _varint(content, at):
    value = shift = 0
    while shift < 64:
        value |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 0x80:
            return value, at
    raise ValueError("a number is too long")
