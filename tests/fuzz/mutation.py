"""Spoils bytes, by a seed alone: the same seed gives the same bytes on every machine.

Checksums stop most damage at the door, so half of what is made has them mended again, and reaches the code behind them.
"""

import io
import struct
import zipfile
import zlib

import numpy as np

_INTEGERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 60000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutated(content, rng, others=()):
    """`content` after one to four random acts; `others` are files to splice with."""
    content = bytearray(content)
    for _ in range(rng.randint(1, 5)):
        if not content:
            return bytes(content)
        # Headers are small and matter most: every other act is near the start.
        reach = len(content) if rng.randint(2) else min(len(content), 256)
        at, act = rng.randint(reach), rng.randint(9)
        length = min(1 + int(rng.exponential(12)), len(content) - at)
        if act == 0:
            content[at] ^= 1 << rng.randint(8)
        elif act == 1:
            content[at] = (0, 0xFF, 0x7F, 0x80, 0x20)[rng.randint(5)]
        elif act == 2:
            content[at:at] = rng.bytes(length)
        elif act == 3:
            del content[at : at + length]
        elif act == 4:
            content[at : at + length] = content[at : at + length] * 2
        elif act == 5:
            del content[at:]
        elif act == 6:
            size = (1, 2, 4, 8)[rng.randint(4)]
            value = _INTEGERS[rng.randint(len(_INTEGERS))] % (1 << 8 * size)
            content[at : at + size] = value.to_bytes(size, ("big", "little")[rng.randint(2)])
        elif act == 7:
            content[at : at + length] = rng.bytes(length)
        elif others:
            other = others[rng.randint(len(others))]
            content[at:] = other[rng.randint(len(other)) :]
    return bytes(content)


def with_png_checksums(content):
    """A PNG whose chunks have the checksums that fit what is in them, as far as chunks can be followed."""
    parts, at = [content[:8]], 8
    while at + 12 <= len(content):
        length, = struct.unpack(">I", content[at : at + 4])
        body = content[at + 4 : at + 8 + length]
        if at + 12 + length > len(content):
            break
        parts.append(content[at : at + 4] + body + struct.pack(">I", zlib.crc32(body)))
        at += 12 + length
    return b"".join(parts) + content[at:]


def with_spoilt_pixels(content, rng):
    """A PNG whose rows are spoilt before they are compressed: the stream and all checksums are sound."""
    at, stream, parts = 8, b"", [content[:8]]
    while at + 12 <= len(content):
        length, = struct.unpack(">I", content[at : at + 4])
        name, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        if name == b"IDAT":
            stream += body
        elif name == b"IEND":
            body = zlib.compress(mutated(zlib.decompress(stream), rng))
            parts.append(struct.pack(">I", len(body)) + b"IDAT" + body + struct.pack(">I", zlib.crc32(b"IDAT" + body)))
            parts.append(content[at:])
        else:
            parts.append(content[at : at + 12 + length])
        at += 12 + length
    return b"".join(parts)


def npz_of_spoilt_arrays(content, rng):
    """An .npz whose members are spoilt and whose archive is sound."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            body = old.read(name)
            new.writestr(name, mutated(body, rng) if rng.randint(2) else body)
    return buffer.getvalue()


def _crc32c_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return [int(value) for value in table]


_CRC32C = _crc32c_table()


def masked_crc32c(content):
    """The checksum of a block in TensorFlow's tables."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(content, at):
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 0x80:
            return value, at


def index_of_spoilt_entries(content, rng):
    """A checkpoint's .index whose first block, of the entries, is spoilt in place and has its checksum mended."""
    footer, at = content[-48:], 0
    for _ in range(2):
        _, at = _varint(footer, at)
    start, at = _varint(footer, at)  # the block of the index: its first entry is `shared, own, length, key, handle`
    at = start
    _, at = _varint(content, at)
    own, at = _varint(content, at)
    _, at = _varint(content, at)
    offset, at = _varint(content, at + own)
    size, at = _varint(content, at)
    block = bytearray(content[offset : offset + size])
    for _ in range(rng.randint(1, 4)):
        block[rng.randint(size)] = rng.randint(256) if rng.randint(2) else (0, 0x7F, 0xFF, 1)[rng.randint(4)]
    kind = content[offset + size : offset + size + 1]
    checksum = struct.pack("<I", masked_crc32c(bytes(block) + kind))
    return content[:offset] + bytes(block) + kind + checksum + content[offset + size + 5 :]
