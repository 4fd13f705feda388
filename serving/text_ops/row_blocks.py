"""Runs a model on blocks of rows, to bound its peak memory."""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Tokens of a block: those of 32 rows of 512, for which memory is needed anyway. With
# fewer, the overhead of each block begins to matter.
_TOKENS = 2**14


def in_blocks(
    count: tf.Tensor,
    width: tf.Tensor,
    work: Callable[[tf.Tensor, tf.Tensor], Sequence[tf.Tensor]],
    dtypes: Sequence[tf.DType],
) -> list[tf.Tensor]:
    """Applies a function to rows, one block after the other.

    Args:
        count: int32 scalar, the number of rows. With 0 rows `work` is still called
            once.
        width: int32 scalar, tokens of the longest row; at least 1.
        work: Function of the index of a block's first row and of the index after its
            last row; returns one-dimensional tensors of any length.
        dtypes: The dtypes of the tensors that `work` returns.

    Returns:
        The results of all blocks, concatenated in the order of the rows.

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

    def one_block(index: tf.Tensor, *found: tf.TensorArray) -> list:
        begin = index * size
        parts = work(begin, tf.minimum(begin + size, count))
        kept = [all.write(index, x) for all, x in zip(found, parts, strict=True)]
        return [index + 1, *kept]

    # Parallel iterations would need the memory of several blocks.
    _, *found = tf.while_loop(
        lambda index, *_: index < number,
        one_block,
        [0, *found],
        parallel_iterations=1,
    )
    return [all.concat() for all in found]
