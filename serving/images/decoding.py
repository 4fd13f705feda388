"""Decodes images to pixels in the graph, as the data job does with Pillow."""

from typing import Any

import tensorflow as tf

from transbeam.serving.images.headers import Header, jpeg_header, png_header
from transbeam.serving.images.resizing import resize

# Limits on decoded images, four in parallel: their memory does not follow from the
# size of their files.
_MOST_PIXELS = 2**26
_MOST_SIDE = 2**16 - 1
_AT_ONCE = 4
_GREY_16_BITS = 16 * 256
# Pillow uses XMP's orientation if EXIF has none. 1 is upright.
_XMP = r'\C*tiff:Orientation(="|>)[2-8]\C*'
# Pillow's weights of red, green and blue in gray, times 2 ** 16.
_GREY = (19595, 38470, 7471)


def decode_images(contents: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """Decodes images to the same pixels, bit for bit, as in the training records.

    Images are rotated by their EXIF orientation, converted to RGB (or gray) without
    transparency, and resized to a square. At run time the graph fails with
    `InvalidArgument` if a file is not a complete JPEG or PNG, or would be decoded to
    other pixels than in the training records.

    Args:
        contents: Files, string (B,).
        size: Height and width.
        channels: The number of channels: 1 for gray, 3 for RGB.

    Returns:
        uint8 (B, size, size, channels).
    """
    return tf.map_fn(
        lambda content: _decode(content, size, channels),
        contents,
        parallel_iterations=_AT_ONCE,
        fn_output_signature=tf.TensorSpec([size, size, channels], tf.uint8),
    )


def _decode(content: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    is_jpeg = tf.strings.substr(content, 0, 3) == b"\xff\xd8\xff"
    is_png = tf.strings.substr(content, 0, 8) == b"\x89PNG\r\n\x1a\n"
    found = tf.strings.length(content)
    is_known = _check(
        is_jpeg | is_png, found, "bytes that begin neither as a JPEG nor as a PNG does"
    )
    with tf.control_dependencies([is_known]):
        image = tf.cond(is_jpeg, lambda: _jpeg(content), lambda: _png(content))
    image.set_shape([None, None, 3])
    if channels == 1:
        wide = tf.cast(image, tf.int32) * _GREY
        rounded = tf.reduce_sum(wide, axis=2, keepdims=True) + 2**15
        image = tf.cast(rounded // 2**16, tf.uint8)
    return tf.ensure_shape(resize(image, size), [size, size, channels])


def _jpeg(content: tf.Tensor) -> tf.Tensor:
    header = jpeg_header(content)
    fine = (header.kind == 1) | (header.kind == 3)
    message = "components, in a JPEG (0: damaged); expected 1 or 3 (not for print)"
    checks = [_check(fine, header.kind, message), *_checks(header, content)]
    with tf.control_dependencies(checks):
        # The same inverse DCT as in Pillow.
        image = tf.io.decode_jpeg(content, 3, dct_method="INTEGER_ACCURATE")
    return _upright(image, header.orientation)


def _png(content: tf.Tensor) -> tf.Tensor:
    header = png_header(content)
    fine = header.kind != _GREY_16_BITS
    message = "bits a pixel, in a grey PNG; expected at most 8"
    checks = [_check(fine, 16, message), *_checks(header, content)]
    with tf.control_dependencies(checks):
        image = tf.io.decode_png(content, 3)
    return _upright(image, header.orientation)


def _checks(header: Header, content: tf.Tensor) -> list[Any]:
    sides = tf.stack([header.width, header.height])
    fits = tf.reduce_all((sides > 0) & (sides <= _MOST_SIDE))
    fits &= header.width * header.height <= _MOST_PIXELS
    message = f"pixels wide and high; expected at most {_MOST_PIXELS:,} in all"
    is_rotated = tf.logical_not(header.has_orientation) & tf.strings.regex_full_match(
        content, _XMP
    )
    rotated = "is rotated by XMP, and EXIF has no orientation; expected EXIF"
    return [
        _check(fits, sides, message),
        _check(tf.logical_not(is_rotated), "it", rotated),
    ]


def _check(fine: tf.Tensor, found: Any, message: str) -> Any:
    return tf.debugging.Assert(fine, ["image_bytes: found", found, message])


def _upright(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Rotates and mirrors an image by its EXIF orientation."""

    def among(*numbers: int) -> tf.Tensor:
        return tf.reduce_any(orientation == tf.constant(numbers, tf.int64))

    steps = (
        ((5, 6, 7, 8), lambda: tf.transpose(image, [1, 0, 2])),
        ((2, 3, 6, 7), lambda: tf.reverse(image, [1])),
        ((3, 4, 7, 8), lambda: tf.reverse(image, [0])),
    )
    for numbers, rotated in steps:
        image = tf.cond(among(*numbers), rotated, lambda image=image: image)
        image.set_shape([None, None, 3])
    return image
