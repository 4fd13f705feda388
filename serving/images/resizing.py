"""Resizes images with Pillow's bilinear filter, bit for bit.

Pillow computes in integers, first along rows, then along columns (first along columns
if an image is very tall), and rounds to 8 bits in between. `tf.image.resize` computes
in floats, and pixel values sometimes differ by one. So this module reimplements
Pillow's algorithm with TensorFlow ops.
"""

from typing import Any

import tensorflow as tf

_BITS = 22  # fractional bits of a weight
_TALL = 100  # times as high as wide


def resize(image: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes a whole image to a square, without keeping its aspect ratio.

    Args:
        image: uint8 (H, W, C).
        size: Side of the square, in pixels.

    Returns:
        uint8 (size, size, C).

    Example:
    >>> resize(tf.constant([[[0], [255]]], tf.uint8), 1).numpy().tolist()
    [[[128]]]
    """
    height, width = tf.unstack(tf.shape(image)[:2])
    return tf.cond(
        (height > _TALL * width) & (height > size),
        lambda: _along(1, _along(0, image, size), size),
        lambda: _along(0, _along(1, image, size), size),
    )


def _along(axis: int, image: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes an image along one axis."""
    length = tf.shape(image)[axis]
    first, weights = _weights(length, size)
    shape = [size, 1, 1] if axis == 0 else [1, size, 1]

    def add(tap: Any, total: Any) -> tuple[Any, Any]:
        indices = tf.minimum(first + tap, length - 1)
        pixels = tf.cast(tf.gather(image, indices, axis=axis), tf.int32)
        return tap + 1, total + pixels * tf.reshape(weights[tap], shape)

    half = 2 ** (_BITS - 1)
    rows = size if axis == 0 else tf.shape(image)[0]
    columns = size if axis == 1 else tf.shape(image)[1]
    total = tf.fill([rows, columns, tf.shape(image)[2]], half)
    _, total = tf.while_loop(
        lambda tap, _: tap < tf.shape(weights)[0], add, [tf.constant(0), total]
    )
    return tf.cast(total // 2**_BITS, tf.uint8)


def _weights(length: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first source pixel of each output pixel, and the filter weights.

    Returns:
        int32 (size,), and int32 (K, size), fixed-point with `_BITS` fractional bits.
    """
    # Not `/`: TensorFlow replaces it by a multiplication, which rounds differently.
    scale = tf.math.divide_no_nan(
        tf.cast(length, tf.float64), tf.constant(size, tf.float64)
    )
    support = tf.maximum(scale, 1.0)
    centers = (tf.range(size, dtype=tf.float64) + 0.5) * scale
    first = tf.maximum(tf.cast(centers - support + 0.5, tf.int32), 0)
    end = tf.minimum(tf.cast(centers + support + 0.5, tf.int32), length)
    most = tf.cast(tf.math.ceil(support), tf.int32) * 2 + 1
    indices = first + tf.range(most)[:, tf.newaxis]  # (K, size)
    away = (tf.cast(indices, tf.float64) - centers + 0.5) * (1.0 / support)
    weights = tf.maximum(1.0 - tf.abs(away), 0.0) * tf.cast(indices < end, tf.float64)
    # Sequentially: another order of summation would round differently.
    weights /= tf.foldl(tf.add, weights)
    return first, tf.cast(weights * 2.0**_BITS + 0.5, tf.int32)
