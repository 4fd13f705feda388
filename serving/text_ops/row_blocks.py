"""Many rows for a model, some at a time: what it needs then does not grow with them."""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Tokens that a model reads at once: those of 32 rows of 512, for which there has to be
# memory anyway. With fewer, what each block costs by itself begins to count.
_TOKENS = 2**14


def in_blocks(
    count: tf.Tensor,
    width: tf.Tensor,
    work: Callable[[tf.Tensor, tf.Tensor], Sequence[tf.Tensor]],
    dtypes: Sequence[tf.DType],
) -> list[tf.Tensor]:
    """Does some work for rows, a block of them after the other.

    Args:
        count: int32 scalar, the rows. The work is done once if there are none.
        width: int32 scalar, tokens of the longest row; at least 1.
        work: From the number of the first row of a block, and of the one behind its
            last, to what comes of it: tensors of one dimension, of any length.
        dtypes: Of these tensors.

    Returns:
        What came of all blocks, put together in the order of the rows.

    Example:
    >>> squares = lambda begin, end: [tf.range(begin, end) ** 2]
    >>> in_blocks(35, 8192, squares, [tf.int32])[0].numpy().tolist()[-3:]
    [1024, 1089, 1156]
    """
    size = tf.maximum(_TOKENS // width, 1)
    number = tf.maximum((count + size - 1) // size, 1)
    found = [
        tf.TensorArray(dtype, number, infer_shape=False, element_shape=[None])
        for dtype in dtypes
    ]

    def one_block(place: tf.Tensor, *found: tf.TensorArray) -> list:
        begin = place * size
        parts = work(begin, tf.minimum(begin + size, count))
        kept = [all.write(place, x) for all, x in zip(found, parts, strict=True)]
        return [place + 1, *kept]

    # One at a time: side by side they would need the memory of all of them.
    _, *found = tf.while_loop(
        lambda place, *_: place < number,
        one_block,
        [0, *found],
        parallel_iterations=1,
    )
    return [all.concat() for all in found]
