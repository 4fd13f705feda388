"""What every absolute position does once it has its table of vectors."""

import numpy as np
from keras import ops

from configs.errors import DataError
from model.layers.checks import check_integers, check_rank


def add_position_rows(inputs, table, position_ids, name: str, offset: int = 0):
    """Adds to each token the row of the table that belongs to its place.

    Args:
        inputs: float `(B, T, D)`.
        table: float `(offset + P, D)`, of the dtype of `inputs`.
        position_ids: int `(B, T)`, or None for 0, 1, 2, ... in every row.
        name: What to call the table in an error.
        offset: Which row belongs to place 0.

    Returns:
        `(B, T, D)`.

    Raises:
        DataError: A place outside of the table, where it can be known: without
            `position_ids` when `T` is, with them when no graph is being built.
        ValueError: `inputs` or `position_ids` of a wrong rank, length or dtype.

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
        raise DataError(
            f"{name}: the input has {length} tokens, but there are positions for "
            f"{num_rows - offset}; shorten the input, or train a model with a larger "
            "max_sequence_length"
        )
    # A slice of a length that is only known at run time fails when it is too long;
    # Python's brackets would quietly return fewer rows.
    return inputs + ops.slice(table, (offset, 0), (length, width))  # + (T, D)


def _check_position_ids(position_ids, inputs, num_positions: int, name: str) -> None:
    check_rank(position_ids, 2, f"{name}: position_ids", "(batch, length)")
    check_integers(position_ids, f"{name}: position_ids")
    shape, length = tuple(position_ids.shape), inputs.shape[1]
    if None not in (shape[1], length) and shape[1] != length:
        raise ValueError(
            f"{name}: position_ids has shape {shape}; expected one place for each of "
            f"the input's {length} tokens"
        )
    # Past the table, TensorFlow reads zeros on a GPU, and JAX reads NaN.
    places = _numbers(position_ids)
    if places is None or not places.size:
        return
    if places.min() < 0 or places.max() >= num_positions:
        raise DataError(
            f"{name}: position_ids, of shape {shape}, go from {places.min()} to "
            f"{places.max()}, but there are positions from 0 to {num_positions - 1}; "
            "shorten the input, or train a model with a larger max_sequence_length"
        )


def _numbers(tensor) -> np.ndarray | None:
    """What is in the tensor; None for one that stands for numbers yet to come."""
    try:
        return ops.convert_to_numpy(tensor)
    except (
        NotImplementedError,
        TypeError,
    ):  # a graph of TensorFlow's, a trace of JAX's
        return None
