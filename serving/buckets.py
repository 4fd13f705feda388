"""Widths that rows of tokens are filled up to, so that only few shapes are ever seen.

Each new shape costs a program something the first time: memory is laid out and kernels
are chosen anew. With few shapes a warm-up has met them all.
"""

import numpy as np
import tensorflow as tf

_NARROWEST = 16


def widths(max_length: int) -> tuple[int, ...]:
    """16, 24, 32, 48, 64, 96, … and `max_length`: no row gets half as long again.

    Example:
    >>> widths(100)
    (16, 24, 32, 48, 64, 96, 100)
    """
    steps = [_NARROWEST << power for power in range(max_length.bit_length())]
    between = [step + step // 2 for step in steps]
    return (*sorted(w for w in (*steps, *between) if w < max_length), max_length)


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
