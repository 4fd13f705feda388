"""Length buckets for padding, so that models are run with few distinct shapes.

TensorFlow allocates memory and selects kernels when a shape first occurs. If there are
few shapes, warm-up requests can cover all shapes.
"""

import numpy as np
import tensorflow as tf

_NARROWEST = 16
_LEAST_STEP = 8


def widths(max_length: int) -> tuple[int, ...]:
    """Returns the bucket widths: 16, 24, 32, … 64, 80, 96, 112, 128, 160, …

    The step is 8 up to 64, then a quarter of the largest power of two that does not
    exceed the width. On average an eighth of each row is padding; more widths would
    reduce the padding, but each width costs a warm-up request per signature.

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
    """Returns the smallest of `widths` that fits a row.

    Args:
        longest: int32 scalar, tokens of the longest row; at most `max_length`.
        max_length: The maximum number of tokens of a row.

    Example:
    >>> int(bucket(tf.constant(17), 100))
    24
    """
    known = np.array(widths(max_length), np.int32)
    index = tf.reduce_sum(tf.cast(known < longest, tf.int32))
    return tf.gather(known, index)
