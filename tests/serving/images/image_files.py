"""Images as files, of the kinds that people have."""

import io
import struct
import zlib

import numpy as np
from PIL import Image

ORIENTATION = 0x0112  # EXIF's tag
XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    """Waves and noise, in colour."""
    y, x = np.mgrid[:height, :width]
    waves = np.stack([np.sin(x / 7 + y / 11), np.cos(x / 5), np.sin(x * y / 60)], -1)
    noise = np.random.default_rng(seed).normal(0, 20, waves.shape)
    return Image.fromarray((127 + 100 * waves + noise).clip(0, 255).astype(np.uint8))


def file_of(image: Image.Image, kind: str, **options) -> bytes:
    """A whole file."""
    sink = io.BytesIO()
    image.save(sink, kind, **options)
    return sink.getvalue()


def held(orientation: int, endian: str = "<") -> Image.Exif:
    """EXIF with the orientation between other tags."""
    exif = Image.Exif()
    exif.endian = endian
    exif[0x010F] = "a maker of cameras"
    exif[ORIENTATION] = orientation
    exif[0x0132] = "2020:02:02 02:02:02"
    return exif


def png(values: np.ndarray, color: int) -> bytes:
    """A PNG by hand: of values (H, W, C) of 16 bits, which Pillow does not write."""
    height, width = values.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    begin, end = b"\x89PNG\r\n\x1a\n", _chunk(b"IEND", b"")
    return begin + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + end


def wide_png(width: int, height: int) -> bytes:
    """A PNG that says to be so large, and is not."""
    small = file_of(picture(2, 2), "PNG")
    header = struct.pack(">II", width, height) + small[24:29]
    return small[:8] + _chunk(b"IHDR", header) + small[33:]


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return (
        struct.pack(">I", len(content))
        + checked
        + struct.pack(">I", zlib.crc32(checked))
    )
