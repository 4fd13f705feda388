"""Operations on ragged rows with few graph nodes.

`tf.ragged` supports any number of dimensions, and needs 70 to 380 operations where a
little arithmetic on the row splits of (B, None) suffices. A graph that tokenizes and
generates calls dozens of functions on ragged rows: with `tf.ragged`, these were a third
of the nodes of an exported decoder.
"""

from typing import Any

import tensorflow as tf

_Ragged: Any = tf.RaggedTensor


def split_rows(values: tf.Tensor, lengths: tf.Tensor) -> Any:
    """Splits values into rows `(B, None)` of the given lengths `(B,)`.

    Example:
    >>> split_rows([7, 8, 9], [1, 0, 2]).to_list()
    [[7], [], [8, 9]]
    """
    return _Ragged.from_row_lengths(values, lengths, validate=False)


def row_of_each(tokens: tf.RaggedTensor) -> tf.Tensor:
    """Returns the row of each value, int64 `(N,)`.

    Example:
    >>> row_of_each(tf.ragged.constant([[7], [], [8, 9]])).numpy().tolist()
    [0, 2, 2]
    """
    splits = tokens.row_splits
    # At each value, the number of rows that begin at or before it.
    rows_before = tf.scatter_nd(
        tf.expand_dims(splits, 1),
        tf.ones_like(splits),
        [tf.size(tokens.values, tf.int64) + 1],
    )
    return tf.cumsum(rows_before)[:-1] - 1


def positions_in_rows(tokens: tf.RaggedTensor) -> tf.Tensor:
    """Returns the position of each value in its row, int64 `(N,)`.

    Example:
    >>> positions_in_rows(tf.ragged.constant([[7], [], [8, 9]])).numpy().tolist()
    [0, 0, 1]
    """
    starts = tf.gather(tokens.row_splits, row_of_each(tokens))
    return _numbers(tokens) - starts


def is_before(tokens: tf.RaggedTensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns whether each value is before a position in its row, bool `(N,)`.

    Args:
        tokens: `(B, None)`, N values in all.
        positions: `(B,)`, integers.

    Example:
    >>> rows = tf.ragged.constant([[7], [], [8, 9]])
    >>> is_before(rows, [0, 1, 1]).numpy().tolist()
    [False, True, False]
    """
    ends = tokens.row_starts() + tf.cast(positions, tf.int64)
    return _numbers(tokens) < tf.gather(ends, row_of_each(tokens))


def filter_rows(tokens: tf.RaggedTensor, kept: tf.Tensor) -> Any:
    """Filters the values of rows by a mask.

    Args:
        tokens: `(B, None)`, N values in all.
        kept: bool `(N,)`.

    Example:
    >>> rows = tf.ragged.constant([[7, 6], [], [8, 9]])
    >>> filter_rows(rows, rows.values > 6).to_list()
    [[7], [], [8, 9]]
    """
    before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], axis=0)
    return _Ragged.from_row_splits(
        tf.gather_nd(tokens.values, tf.where(kept)),
        tf.gather(before, tokens.row_splits),
        validate=False,
    )


def select_in_rows(values: tf.Tensor, chosen: tf.Tensor) -> Any:
    """Returns the selected values of each row.

    Args:
        values: `(B, T)`.
        chosen: bool `(B, T)`.

    Example:
    >>> select_in_rows([[7, 6], [8, 9]], [[True, False], [False, False]]).to_list()
    [[7], []]
    """
    lengths = tf.reduce_sum(tf.cast(chosen, tf.int64), axis=1)
    return split_rows(tf.gather_nd(values, tf.where(chosen)), lengths)


def strip_padding(values: tf.Tensor, lengths: tf.Tensor) -> Any:
    """Removes padding on the right of rows.

    Args:
        values: `(B, T)`.
        lengths: `(B,)`, integers: the lengths of the rows without padding, clipped to 0
            … T.

    Example:
    >>> strip_padding([[7, 6], [8, 9]], [1, 2]).to_list()
    [[7], [8, 9]]
    """
    return select_in_rows(values, tf.sequence_mask(lengths, tf.shape(values)[1]))


def prepend_token(
    tokens: tf.RaggedTensor, piece: int | None, where: tf.Tensor | None = None
) -> Any:
    """Prepends a token to rows.

    Args:
        tokens: int32 `(B, None)`.
        piece: The id of the token; must not be None.
        where: bool `(B,)`, the rows to change; None: all.

    Example:
    >>> rows = tf.ragged.constant([[7], [8, 9]])
    >>> prepend_token(rows, 0, [False, True]).to_list()
    [[7], [0, 8, 9]]
    """
    each = tf.ones_like(tokens.row_lengths()) if where is None else where
    added = tf.cumsum(tf.cast(each, tf.int64))
    positions = _numbers(tokens) + tf.gather(added, row_of_each(tokens))
    splits = tokens.row_splits + tf.concat([[0], added], axis=0)
    return _filled_up(tokens.values, positions, piece, splits)


def append_token(tokens: tf.RaggedTensor, piece: int | None) -> Any:
    """Appends a token to rows.

    Args:
        tokens: int32 `(B, None)`.
        piece: The id of the token; must not be None.

    Example:
    >>> append_token(tf.ragged.constant([[7], []], tf.int32), 0).to_list()
    [[7, 0], [0]]
    """
    positions = _numbers(tokens) + row_of_each(tokens)
    splits = tokens.row_splits + tf.range(tf.size(tokens.row_splits, tf.int64))
    return _filled_up(tokens.values, positions, piece, splits)


def concatenate_ragged(first: tf.RaggedTensor, second: tf.RaggedTensor) -> Any:
    """Concatenates two sets of rows row by row.

    Args:
        first: `(B, None)`.
        second: `(B, None)`, of the same dtype.

    Example:
    >>> one, other = tf.ragged.constant([[7], []]), tf.ragged.constant([[8], [9]])
    >>> concatenate_ragged(one, other).to_list()
    [[7, 8], [9]]
    """
    # Each value is shifted by all values of the other set's preceding rows.
    of_first = _numbers(first) + tf.gather(second.row_splits, row_of_each(first))
    of_second = _numbers(second) + tf.gather(first.row_splits, row_of_each(second) + 1)
    positions = [tf.cast(positions, tf.int32) for positions in (of_first, of_second)]
    return _Ragged.from_row_splits(
        tf.dynamic_stitch(positions, [first.values, second.values]),
        first.row_splits + second.row_splits,
        validate=False,
    )


def flatten_rows(tokens: tf.RaggedTensor) -> Any:
    """Flattens rows of rows `(B, None, None)` to `(B, None)`.

    Example:
    >>> flatten_rows(tf.ragged.constant([[[7], [8]], [], [[], [9]]])).to_list()
    [[7, 8], [], [9]]
    """
    inner: Any = tokens.values
    return _Ragged.from_row_splits(
        inner.values, tf.gather(inner.row_splits, tokens.row_splits), validate=False
    )


def joined(texts: tf.RaggedTensor, separator: str = "") -> tf.Tensor:
    """Joins the strings of each row `(B, None)`: `(B,)`.

    Example:
    >>> joined(tf.ragged.constant([["a", "b"], []], tf.string), "-").numpy().tolist()
    [b'a-b', b'']
    """
    rows = tf.size(texts.row_splits) - 1
    return tf.strings.unsorted_segment_join(
        texts.values, row_of_each(texts), rows, separator
    )


def _numbers(tokens: tf.RaggedTensor) -> tf.Tensor:
    return tf.range(tf.size(tokens.values, tf.int64))


def _filled_up(
    values: tf.Tensor, positions: tf.Tensor, piece: int | None, splits: tf.Tensor
) -> Any:
    """Builds rows with `values` at `positions`, and the token `piece` elsewhere."""
    filled = tf.tensor_scatter_nd_update(
        tf.fill([splits[-1]], piece), tf.expand_dims(positions, 1), values
    )
    return _Ragged.from_row_splits(filled, splits, validate=False)
