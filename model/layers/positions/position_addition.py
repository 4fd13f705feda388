"""Helpers for adding absolute position embeddings to token embeddings."""

from keras import ops

from transbeam.model.base.tensor_checks import (
    check_integers,
    check_range,
    check_rank,
    check_rows,
)

_TOO_LONG = (
    "for which there are positions; shorten the input, or train a model with a larger "
    "max_sequence_length"
)


def add_position_rows(inputs, table, position_ids, name: str, offset: int = 0):
    """Adds to each token's vector the table's row for its position.

    Args:
        inputs: float `(B, T, D)`.
        table: float `(offset + P, D)`, of the dtype of `inputs`.
        position_ids: int `(B, T)`, or None for 0, 1, 2, ... in every row.
        name: The table's name, for error messages.
        offset: Index of the table's row for position 0.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: `inputs` or `position_ids` has a wrong rank, length or dtype; or a
            position is outside of the table. Positions are checked in eager execution;
            without `position_ids`, whenever `T` is known.

    Example:
    >>> table = ops.array([[10.0], [20.0], [30.0]])
    >>> rows = add_position_rows(ops.zeros((1, 2, 1)), table, None, "positions")
    >>> ops.convert_to_numpy(rows).ravel()
    array([10., 20.], dtype=float32)
    """
    check_rank(inputs, 3, f"{name}: inputs", "(batch, length, width)")
    num_rows, width = table.shape
    if position_ids is not None:
        _check_position_ids(position_ids, inputs, num_rows - offset, name)
        return inputs + ops.take(table, position_ids + offset, axis=0)
    length = ops.shape(inputs)[1]
    if isinstance(length, int) and length > num_rows - offset:
        raise ValueError(
            f"{name}: inputs has shape {tuple(inputs.shape)}; expected at most "
            f"{num_rows - offset} tokens, {_TOO_LONG}"
        )
    # `ops.slice` with a length that is only known at run time fails if it is too long;
    # Python's indexing would silently return fewer rows.
    return inputs + ops.slice(table, (offset, 0), (length, width))  # + (T, D)


def _check_position_ids(position_ids, inputs, num_positions: int, name: str) -> None:
    name = f"{name}: position_ids"
    check_rows(position_ids, inputs, name)
    check_integers(position_ids, name)
    check_range(position_ids, num_positions, name, f", {_TOO_LONG}")
