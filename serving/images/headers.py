"""Parses the headers of JPEG and PNG files with TensorFlow ops.

TensorFlow's decoders report neither the EXIF tag `Orientation` nor the size of an image
before it is decoded into memory.
"""

from typing import Any, NamedTuple

import tensorflow as tf

_ROOM = b"\0" * 32  # reads beyond the end give 0
_EXIF, _START_OF_SCAN = b"Exif\0\0", 0xFFDA
_ORIENTATION, _SHORT = 0x0112, 3
_JPEG_BEGIN, _PNG_BEGIN = 2, 8  # offsets after the file signatures
# Markers of frame headers, which have the size, are C0 to CF except these.
_NO_FRAMES = (0xFFC4, 0xFFC8, 0xFFCC)


class Header(NamedTuple):
    """Fields of an image header: int64 scalars; `has_orientation` is a bool scalar.

    Attributes:
        height: The height in pixels, before rotation; 0 if the header is damaged.
        width: The width in pixels, before rotation; 0 if the header is damaged.
        kind: The number of components of a JPEG; for a PNG 256 times the bit depth plus
            the color type.
        orientation: The EXIF orientation, from 1 to 8; 1 if the file has none.
        has_orientation: Whether the file has an EXIF orientation.
    """

    height: tf.Tensor
    width: tf.Tensor
    kind: tf.Tensor
    orientation: tf.Tensor
    has_orientation: tf.Tensor


class _Bytes:
    """Reads big-endian integers from a string of bytes."""

    def __init__(self, content: tf.Tensor):
        self.length = tf.cast(tf.strings.length(content), tf.int64)
        self.padded = tf.strings.join([content, _ROOM])

    def text(self, at: Any, size: Any) -> tf.Tensor:
        begin = tf.minimum(tf.cast(at, tf.int64), self.length)
        return tf.strings.substr(self.padded, begin, tf.cast(size, tf.int64))

    def shorts(self, at: Any, count: Any) -> tf.Tensor:
        """Reads 16-bit integers, int64 (count,)."""
        raw = self.text(at, 2 * count)
        return tf.cast(tf.io.decode_raw(raw, tf.uint16, False), tf.int64)

    def short(self, at: Any) -> tf.Tensor:
        return self.shorts(at, 1)[0]

    def long(self, at: Any) -> tf.Tensor:
        high, low = tf.unstack(self.shorts(at, 2), 2)
        return 2**16 * high + low


def jpeg_header(content: tf.Tensor) -> Header:
    """Parses the segments before the pixel data of a JPEG, a string scalar.

    Args:
        content: The file's content, which begins with a JPEG signature but may be
            damaged.
    """
    read = _Bytes(content)

    def more(at: Any, *_: Any) -> tf.Tensor:
        marker = read.short(at)
        known = (marker > 0xFF00) & (marker != _START_OF_SCAN)
        return (at < read.length) & known

    def step(at: Any, frame: Any, exif: Any) -> tuple[Any, Any, Any]:
        marker = read.short(at)
        is_frame = (marker >= 0xFFC0) & (marker <= 0xFFCF)
        is_frame &= tf.reduce_all(marker != tf.constant(_NO_FRAMES, tf.int64))
        is_exif = (marker == 0xFFE1) & (read.text(at + 4, 6) == _EXIF) & (exif == 0)
        # A segment has a marker and a length field, which counts itself.
        segment = 2 + tf.maximum(read.short(at + 2), 2)
        size = tf.where(marker == 0xFFFF, tf.constant(1, tf.int64), segment)
        frame, exif = tf.where(is_frame, at, frame), tf.where(is_exif, at + 10, exif)
        return at + size, frame, exif

    none = tf.constant(0, tf.int64)
    begin = tf.constant(_JPEG_BEGIN, tf.int64)
    _, frame, exif = tf.while_loop(more, step, [begin, none, none])
    found = tf.cast(frame > 0, tf.int64)
    height, width = read.short(frame + 5) * found, read.short(frame + 7) * found
    components = read.short(frame + 9) // 256 * found
    return Header(height, width, components, *_orientation(read, exif))


def png_header(content: tf.Tensor) -> Header:
    """Parses the header chunk and the EXIF chunk of a PNG, a string scalar.

    Args:
        content: The file's content, which begins with a PNG signature but may be
            damaged.
    """
    read = _Bytes(content)

    def more(at: Any, exif: Any) -> tf.Tensor:
        return (at < read.length) & (exif == 0)

    def step(at: Any, exif: Any) -> tuple[Any, Any]:
        exif = tf.where(read.text(at + 4, 4) == b"eXIf", at + 8, exif)
        return at + 12 + read.long(at), exif

    begin = tf.constant(_PNG_BEGIN, tf.int64)
    _, exif = tf.while_loop(more, step, [begin, tf.constant(0, tf.int64)])
    kind = read.short(24)
    return Header(read.long(20), read.long(16), kind, *_orientation(read, exif))


def _orientation(read: _Bytes, tiff: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the orientation in an EXIF table, and whether the table contains one."""
    is_little = read.text(tiff, 2) == b"II"

    def shorts(at: Any, count: Any) -> tf.Tensor:
        found = read.shorts(at, count)
        low, high = found // 256, tf.math.mod(found, 256)
        return tf.where(is_little, 256 * high + low, found)

    ends = shorts(tiff + 4, 2)
    high, low = tf.unstack(tf.where(is_little, ends[::-1], ends), 2)
    table = tf.minimum(tiff + 2**16 * high + low, read.length)
    count = tf.minimum(shorts(table, 1)[0], (read.length - table) // 12)
    entries = tf.reshape(shorts(table + 2, 6 * count), [-1, 6])
    is_it = (entries[:, 0] == _ORIENTATION) & (entries[:, 1] == _SHORT) & (tiff > 0)
    found = tf.reduce_max(tf.where(is_it, entries[:, 4], 0), keepdims=True)
    found = tf.reduce_max(tf.pad(found, [[0, 1]]))
    is_known = (found >= 1) & (found <= 8)
    return tf.where(is_known, found, 1), tf.reduce_any(is_it)
