"""Image files of every odd kind, sound and damaged, as bytes; what PIL cannot write is put together here by hand."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 48, 64


def smooth():
    """A picture [48, 64, 3] that JPEG keeps nearly as it is."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack([4 * x, 5 * y, np.full_like(x, 90)], axis=-1).astype(np.uint8)


def of(mode=None, kind="PNG", array=None, **options):
    """The bytes of the picture in a PIL mode and file format."""
    image = Image.fromarray(smooth() if array is None else array)
    buffer = io.BytesIO()
    (image.convert(mode) if mode else image).save(buffer, kind, **options)
    return buffer.getvalue()


def noise():
    """A PNG that is nearly all pixels."""
    return of(array=np.random.RandomState(0).randint(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8))


def alpha():
    return of(array=np.dstack([smooth(), np.full([HEIGHT, WIDTH], 77, np.uint8)]))


def sixteen_bits():
    return of(array=(smooth()[:, :, 0].astype(np.uint16) << 8) + 11)


def turned(kind="PNG"):
    exif = Image.Exif()
    exif[0x0112] = 6
    return of(kind=kind, exif=exif)


def animated(kind):
    other = Image.fromarray(255 - smooth())
    if kind == "GIF":
        return of("P", "GIF", save_all=True, append_images=[other.convert("P")])
    return of(kind="PNG", save_all=True, append_images=[other])


def cut(content, share=0.5):
    return content[: int(len(content) * share)]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :]


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width, height, rows, bits=8, color=2, interlace=0):
    """A PNG of these already filtered rows (bytes), whatever its header claims."""
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def interlaced():
    """The picture as an Adam7 PNG: seven passes, each of every so many pixels, rows without filter."""
    passes = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1))
    rows = [b"\0" + row.tobytes() for top, down, left, right in passes for row in smooth()[top::down, left::right]]
    return png(WIDTH, HEIGHT, b"".join(rows), interlace=1)


def half_the_rows():
    """Every chunk is sound, its checksum too, but the pixels end after half the rows."""
    return png(WIDTH, HEIGHT, b"".join(b"\0" + row.tobytes() for row in smooth()[: HEIGHT // 2]))


def huge(kind="PNG"):
    """A header that claims 60000x60000 pixels."""
    if kind == "PNG":
        return png(60000, 60000, b"\0" * 1000)
    content = bytearray(of(kind="JPEG"))
    frame = content.find(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", 60000, 60000)
    return bytes(content)
