"""Widths that rows of tokens are filled up to, so that only few shapes are ever seen.

Each new shape costs a program something the first time: memory is laid out and kernels
are chosen anew. With few shapes a warm-up has met them all.
"""

import numpy as np
import tensorflow as tf

_NARROWEST = 16
_LEAST_STEP = 8


def widths(max_length: int) -> tuple[int, ...]:
    """16, 24, 32, … 64, 80, 96, 112, 128, 160, … and `max_length`.

    Eights at first, then quarters of a power of two: rows are filled up by an eighth at
    the mean, and a width more costs a warm-up one request for each signature.

    Example:
    >>> widths(100)
    (16, 24, 32, 40, 48, 56, 64, 80, 96, 100)
    """
    found = []
    width = _NARROWEST
    while width < max_length:
        found.append(width)
        width += max(_LEAST_STEP, 1 << width.bit_length() - 3)
    return (*found, max_length)


def bucket(longest: tf.Tensor, max_length: int) -> tf.Tensor:
    """The narrowest of `widths` with room for a row.

    Args:
        longest: int32 scalar, tokens of the longest row; at most `max_length`.
        max_length: The longest row there is.

    Example:
    >>> int(bucket(tf.constant(17), 100))
    24
    """
    known = np.array(widths(max_length), np.int32)
    place = tf.reduce_sum(tf.cast(known < longest, tf.int32))
    return tf.gather(known, place)
