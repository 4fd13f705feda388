"""Blockwise operations for local attention, with cost linear in the length.

Each block of queries is multiplied with a window of key blocks: the block at the same
index and some blocks before and after it. So the number of scores is `T` times the
window size, never `T x T`.

Shapes: `B` batch, `T` length, `N` blocks of a row, `b` tokens of a block, `W` blocks of
a window, `H` query heads, `G` key-value heads, `R = H / G`, `K` head width. The keys of
windows are called columns; they include empty blocks before and after the row:
`(N + W - 1, ...)`. Blocks are the first axis, so that shifting the columns by a block
needs no copy.
"""

from keras import ops

from transbeam.model.kernels.dispatch import is_plain


def split_blocks(x, size: int, before: int = 0, after: int = 0):
    """Splits rows into blocks, the last one padded with zeros.

    Args:
        x: `(B, T, ...)`.
        size: `b`.
        before: Number of zero blocks to insert before the row.
        after: Number of zero blocks to append after the row.

    Returns:
        `(B, before + N + after, b, ...)`.

    Example:
    >>> ops.convert_to_numpy(split_blocks(ops.array([[1, 2, 3]]), 2, before=1))
    array([[[0, 0],
            [1, 2],
            [3, 0]]], dtype=int32)
    """
    batch, length, *rest = ops.shape(x)
    blocks = count_blocks(length, size)
    tail = (blocks + after) * size - length
    x = ops.pad(x, [(0, 0), (before * size, tail), *[(0, 0)] * len(rest)])
    return ops.reshape(x, (batch, before + blocks + after, size, *rest))


def count_blocks(length, size: int):
    """Counts the blocks of `size` tokens in `length` tokens."""
    return -(-length // size)


def block_starts(ids, size: int):
    """The index in the row at which each block starts.

    Args:
        ids: `(N, ...)`; only its shape is used.
        size: `b`.

    Returns:
        int32 `(N, 1, ...)`, of the rank of `ids`.

    Example:
    >>> ops.convert_to_numpy(block_starts(ops.zeros((3, 5)), 4)).ravel()
    array([0, 4, 8], dtype=int32)
    """
    starts = ops.arange(ops.shape(ids)[0], dtype="int32") * size
    return ops.reshape(starts, (-1, *[1] * (len(ids.shape) - 1)))


def cut_ids(ids, size: int, before: int = 0, after: int = 0):
    """Splits one integer per token into blocks: `(B, T)` to `(N, B, b)`."""
    blocks = split_blocks(ids, size, before, after)
    batch, number, _ = ops.shape(blocks)
    # Gathered instead of transposed: oneDNN transposes integers with AVX-512 only, and
    # prints a message on all other machines.
    rows = ops.expand_dims(ops.arange(number, dtype="int32"), 1)
    rows = rows + ops.arange(batch, dtype="int32") * number  # (N, B)
    return rows_at(ops.reshape(blocks, (batch * number, size)), rows)


def rows_at(x, index):
    """Gathers rows: `(M, ...)` at indices `(N, B, ...)` gives `(N, B, ..., ...)`.

    Example:
    >>> ops.convert_to_numpy(rows_at(ops.array([5, 6, 7]), ops.array([[2], [0]])))
    array([[7],
           [5]], dtype=int32)
    """
    taken = ops.take(x, index, axis=0)
    # If there are no rows, JAX loses the shape of the index.
    return ops.reshape(taken, (*ops.shape(index), *ops.shape(x)[1:]))


def cut_heads(x, size: int, before: int = 0, after: int = 0):
    """Splits keys or values into blocks: `(B, T, G, K)` to `(N, B, G, b, K)`."""
    return ops.transpose(split_blocks(x, size, before, after), (1, 0, 3, 2, 4))


def cut_queries(query, groups: int, size: int):
    """Splits queries into blocks, and stacks query heads that share a key head.

    Args:
        query: `(B, T, H, K)`.
        groups: `G`.
        size: `b`.

    Returns:
        `(N, B, G, R b, K)`.
    """
    query = split_blocks(query, size)
    batch, blocks, _, heads, width = ops.shape(query)
    shared = heads // groups
    query = ops.reshape(query, (batch, blocks, size, groups, shared, width))
    query = ops.transpose(query, (1, 0, 3, 4, 2, 5))  # (N, B, G, R, b, K)
    return ops.reshape(query, (blocks, batch, groups, shared * size, width))


def join_queries(outputs, length, size: int):
    """The inverse of `cut_queries`: `(N, B, G, R b, K)` to `(B, T, H, K)`."""
    blocks, batch, groups, rows, width = ops.shape(outputs)
    shared = rows // size
    outputs = ops.reshape(outputs, (blocks, batch, groups, shared, size, width))
    outputs = ops.transpose(outputs, (1, 0, 4, 2, 3, 5))  # (B, N, b, G, R, K)
    outputs = ops.reshape(outputs, (batch, blocks * size, groups * shared, width))
    return ops.slice(outputs, (0, 0, 0, 0), (batch, length, groups * shared, width))


def by_head(scores, size: int):
    """Reshapes `(N, B, G, R b, S)` to `(N, B, H, b, S)`, without a copy."""
    blocks, batch, groups, rows, keys = ops.shape(scores)
    return ops.reshape(scores, (blocks, batch, groups * (rows // size), size, keys))


def by_group(scores, groups: int):
    """The inverse of `by_head`."""
    blocks, batch, heads, size, keys = ops.shape(scores)
    return ops.reshape(scores, (blocks, batch, groups, heads // groups * size, keys))


def windows(columns, width: int, axis: int):
    """Gathers the columns of each query block's window.

    Args:
        columns: `(N + W - 1, ...)`.
        width: `W`.
        axis: The axis of the `b` tokens of a block.

    Returns:
        `(N, ...)` with `W b` in place of `b`.

    Example:
    >>> columns = ops.reshape(ops.arange(8), (4, 2))
    >>> ops.convert_to_numpy(windows(columns, 3, axis=-1))
    array([[0, 1, 2, 3, 4, 5],
           [2, 3, 4, 5, 6, 7]], dtype=int32)
    """
    blocks = ops.shape(columns)[0] - width + 1
    shifted = [columns[first : first + blocks] for first in range(width)]
    return ops.concatenate(shifted, axis=axis)


def overlap(parts, width: int):
    """Adds up the windows' values at each column: the transpose of `windows`.

    Args:
        parts: `(N, ..., W b, K)`.
        width: `W`.

    Returns:
        `(N + W - 1, ..., b, K)`.
    """
    nothing = [(0, 0)] * (len(parts.shape) - 1)
    total = 0.0
    for first, part in enumerate(ops.split(parts, width, axis=-2)):
        total = total + ops.pad(part, [(first, width - 1 - first), *nothing])
    return total


def window_scores(rows, columns, width: int):
    """Computes the scores of each block of queries with its window of keys.

    The gradient gathers the windows again instead of storing them. The backend's own
    gradient would store the gathered windows, which take `W` times the memory of the
    keys.

    Args:
        rows: `(N, B, G, R b, K)`.
        columns: `(N + W - 1, B, G, b, K)`.
        width: `W`.

    Returns:
        `(N, B, G, R b, W b)`.
    """

    def product(rows, columns):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            to_columns = ops.matmul(_transposed(upstream), rows)
            return window_mean(upstream, columns, width), overlap(to_columns, width)

        keys = windows(columns, width, axis=-2)
        return ops.matmul(rows, _transposed(keys)), gradient

    return _with_gradient(product, rows, columns)


def window_mean(probabilities, columns, width: int):
    """Computes weighted means of window values; also a gradient of `window_scores`.

    Args:
        probabilities: `(N, B, G, R b, W b)`.
        columns: `(N + W - 1, B, G, b, K)`.
        width: `W`.

    Returns:
        `(N, B, G, R b, K)`.
    """

    def product(probabilities, columns):
        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            to_columns = ops.matmul(_transposed(probabilities), upstream)
            return window_scores(upstream, columns, width), overlap(to_columns, width)

        values = windows(columns, width, axis=-2)
        return ops.matmul(probabilities, values), gradient

    return _with_gradient(product, probabilities, columns)


def _with_gradient(product, *inputs):
    """Calls a function that returns its output and its custom gradient function."""
    if is_plain():
        return product(*inputs)[0]
    return ops.custom_gradient(product)(*inputs)


def _transposed(x):
    return ops.swapaxes(x, -1, -2)
