"""What every absolute position does once it has its table of vectors."""

from keras import ops

from configs.errors import DataError


def add_position_rows(inputs, table, position_ids, name: str):
    """Adds to each token the row of the table that belongs to its place.

    Args:
        inputs: float `(B, T, D)`.
        table: float `(P, D)`, of the dtype of `inputs`.
        position_ids: int `(B, T)`, or None for 0, 1, 2, ... in every row.
        name: What to call the table in an error.

    Returns:
        `(B, T, D)`.

    Raises:
        DataError: without `position_ids`, when `T` is known and more than `P`.

    Example:
    >>> table = ops.array([[10.0], [20.0], [30.0]])
    >>> rows = add_position_rows(ops.zeros((1, 2, 1)), table, None, "positions")
    >>> ops.convert_to_numpy(rows).ravel()
    array([10., 20.], dtype=float32)
    """
    if position_ids is not None:
        return inputs + ops.take(table, position_ids, axis=0)
    length = ops.shape(inputs)[1]
    num_positions, hidden_dim = table.shape
    if isinstance(length, int) and length > num_positions:
        raise DataError(
            f"{name}: the input has {length} tokens, but there are positions for "
            f"{num_positions}; shorten the input, or train a model with a larger "
            "max_sequence_length"
        )
    # A slice of a length that is only known at run time fails when it is too long;
    # Python's brackets would quietly return fewer rows.
    rows = ops.slice(table, (0, 0), (length, hidden_dim))  # (T, D)
    return inputs + rows
