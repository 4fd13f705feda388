"""Rows of unequal lengths in a graph, in a few operations.

`tf.ragged` serves any number of dimensions, and takes 70 to 380 operations for what a
row or two of arithmetic on the splits of rows (B, None) says. A graph that tokenizes
and writes has dozens of these: they were a third of the nodes of a decoder's export.
"""

from typing import Any

import tensorflow as tf

_Ragged: Any = tf.RaggedTensor


def rows_of(values: tf.Tensor, lengths: tf.Tensor) -> Any:
    """Rows `(B, None)` of the given lengths `(B,)`, which together are the values.

    Example:
    >>> rows_of([7, 8, 9], [1, 0, 2]).to_list()
    [[7], [], [8, 9]]
    """
    return _Ragged.from_row_lengths(values, lengths, validate=False)


def row_of_each(tokens: tf.RaggedTensor) -> tf.Tensor:
    """The row that each value stands in, int64 `(N,)`.

    Example:
    >>> row_of_each(tf.ragged.constant([[7], [], [8, 9]])).numpy().tolist()
    [0, 2, 2]
    """
    splits = tokens.row_splits
    # At each value, how many rows have begun before it or with it.
    begun = tf.scatter_nd(
        tf.expand_dims(splits, 1),
        tf.ones_like(splits),
        [tf.size(tokens.values, tf.int64) + 1],
    )
    return tf.cumsum(begun)[:-1] - 1


def place_of_each(tokens: tf.RaggedTensor) -> tf.Tensor:
    """The place that each value has in its row, int64 `(N,)`.

    Example:
    >>> place_of_each(tf.ragged.constant([[7], [], [8, 9]])).numpy().tolist()
    [0, 0, 1]
    """
    starts = tf.gather(tokens.row_splits, row_of_each(tokens))
    return _numbers(tokens) - starts


def is_before(tokens: tf.RaggedTensor, places: tf.Tensor) -> tf.Tensor:
    """Whether each value stands before a place in its row, bool `(N,)`.

    Args:
        tokens: `(B, None)`, N values in all.
        places: `(B,)`, integers.

    Example:
    >>> rows = tf.ragged.constant([[7], [], [8, 9]])
    >>> is_before(rows, [0, 1, 1]).numpy().tolist()
    [False, True, False]
    """
    ends = tokens.row_starts() + tf.cast(places, tf.int64)
    return _numbers(tokens) < tf.gather(ends, row_of_each(tokens))


def kept_of_each(tokens: tf.RaggedTensor, kept: tf.Tensor) -> Any:
    """Rows without the values that are not kept.

    Args:
        tokens: `(B, None)`, N values in all.
        kept: bool `(N,)`.

    Example:
    >>> rows = tf.ragged.constant([[7, 6], [], [8, 9]])
    >>> kept_of_each(rows, rows.values > 6).to_list()
    [[7], [], [8, 9]]
    """
    before = tf.concat([[0], tf.cumsum(tf.cast(kept, tf.int64))], axis=0)
    return _Ragged.from_row_splits(
        tf.gather_nd(tokens.values, tf.where(kept)),
        tf.gather(before, tokens.row_splits),
        validate=False,
    )


def chosen_in_rows(values: tf.Tensor, chosen: tf.Tensor) -> Any:
    """The chosen values of each row.

    Args:
        values: `(B, T)`.
        chosen: bool `(B, T)`.

    Example:
    >>> chosen_in_rows([[7, 6], [8, 9]], [[True, False], [False, False]]).to_list()
    [[7], []]
    """
    lengths = tf.reduce_sum(tf.cast(chosen, tf.int64), axis=1)
    return rows_of(tf.gather_nd(values, tf.where(chosen)), lengths)


def first_in_rows(values: tf.Tensor, lengths: tf.Tensor) -> Any:
    """Rows without what fills them up on the right.

    Args:
        values: `(B, T)`.
        lengths: `(B,)`, integers; below 0 is 0, above T is T.

    Example:
    >>> first_in_rows([[7, 6], [8, 9]], [1, 2]).to_list()
    [[7], [8, 9]]
    """
    return chosen_in_rows(values, tf.sequence_mask(lengths, tf.shape(values)[1]))


def with_piece_before(
    tokens: tf.RaggedTensor, piece: int | None, where: tf.Tensor | None = None
) -> Any:
    """Rows that begin with a piece.

    Args:
        tokens: int32 `(B, None)`.
        piece: Its id, which may not be none.
        where: bool `(B,)`, the rows that it is put in front of; else, of all.

    Example:
    >>> rows = tf.ragged.constant([[7], [8, 9]])
    >>> with_piece_before(rows, 0, [False, True]).to_list()
    [[7], [0, 8, 9]]
    """
    each = tf.ones_like(tokens.row_lengths()) if where is None else where
    added = tf.cumsum(tf.cast(each, tf.int64))
    places = _numbers(tokens) + tf.gather(added, row_of_each(tokens))
    splits = tokens.row_splits + tf.concat([[0], added], axis=0)
    return _filled_up(tokens.values, places, piece, splits)


def with_piece_behind(tokens: tf.RaggedTensor, piece: int | None) -> Any:
    """Rows that end with a piece.

    Args:
        tokens: int32 `(B, None)`.
        piece: Its id, which may not be none.

    Example:
    >>> with_piece_behind(tf.ragged.constant([[7], []], tf.int32), 0).to_list()
    [[7, 0], [0]]
    """
    places = _numbers(tokens) + row_of_each(tokens)
    splits = tokens.row_splits + tf.range(tf.size(tokens.row_splits, tf.int64))
    return _filled_up(tokens.values, places, piece, splits)


def side_by_side(first: tf.RaggedTensor, second: tf.RaggedTensor) -> Any:
    """Rows of one kind, each with a row of another behind it.

    Args:
        first: `(B, None)`.
        second: `(B, None)`, of the same dtype.

    Example:
    >>> one, other = tf.ragged.constant([[7], []]), tf.ragged.constant([[8], [9]])
    >>> side_by_side(one, other).to_list()
    [[7, 8], [9]]
    """
    # Behind those of its own kind stand all of the other's rows before it.
    of_first = _numbers(first) + tf.gather(second.row_splits, row_of_each(first))
    of_second = _numbers(second) + tf.gather(first.row_splits, row_of_each(second) + 1)
    places = [tf.cast(places, tf.int32) for places in (of_first, of_second)]
    return _Ragged.from_row_splits(
        tf.dynamic_stitch(places, [first.values, second.values]),
        first.row_splits + second.row_splits,
        validate=False,
    )


def rows_in_one(tokens: tf.RaggedTensor) -> Any:
    """Rows of rows `(B, None, None)`, those of each put together: `(B, None)`.

    Example:
    >>> rows_in_one(tf.ragged.constant([[[7], [8]], [], [[], [9]]])).to_list()
    [[7, 8], [], [9]]
    """
    inner: Any = tokens.values
    return _Ragged.from_row_splits(
        inner.values, tf.gather(inner.row_splits, tokens.row_splits), validate=False
    )


def joined(texts: tf.RaggedTensor, separator: str = "") -> tf.Tensor:
    """The strings of each row `(B, None)` put together: `(B,)`.

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
    values: tf.Tensor, places: tf.Tensor, piece: int | None, splits: tf.Tensor
) -> Any:
    """Rows of the values at their new places, and a piece at all the others."""
    filled = tf.tensor_scatter_nd_update(
        tf.fill([splits[-1]], piece), tf.expand_dims(places, 1), values
    )
    return _Ragged.from_row_splits(filled, splits, validate=False)
