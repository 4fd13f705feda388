"""Checks of the inputs of layers.

Ranks, dtypes and lengths are known while a graph is traced, so checking them adds no
cost when the graph runs. Values are known and checked only in eager execution, so that
compiled models have no cost.
"""

import numpy as np
from keras import ops


def check_rank(tensor, rank: int, name: str, expected: str) -> None:
    """Checks the rank of a tensor.

    Args:
        tensor: The tensor.
        rank: The expected number of axes.
        name: The tensor's name in the error.
        expected: The tensor's expected axes, for the error message.

    Raises:
        ValueError: The tensor has more or fewer axes.

    Example:
    >>> check_rank(np.ones((2, 3)), 3, "attention: inputs", "(batch, length, width)")
    Traceback (most recent call last):
    ValueError: attention: inputs has shape (2, 3); expected (batch, length, width)
    """
    if len(tensor.shape) != rank:
        shape = tuple(tensor.shape)
        raise ValueError(f"{name} has shape {shape}; expected {expected}")


def check_integers(tensor, name: str) -> None:
    """Checks that ids are integers.

    Raises:
        ValueError: The dtype is not an integer dtype.

    Example:
    >>> check_integers(np.ones(2), "token_ids")
    Traceback (most recent call last):
    ValueError: token_ids has dtype float64 (and shape (2,)); expected whole numbers...
    """
    dtype = get_dtype(tensor)
    if "int" not in dtype:
        raise ValueError(
            f"{name} has dtype {dtype} (and shape {tuple(tensor.shape)}); expected "
            "whole numbers, such as int32"
        )


def check_rows(tensor, inputs, name: str) -> None:
    """Checks that a tensor has one integer or bool for each token of the inputs.

    An unknown batch size or length matches any size.

    Args:
        tensor: int or bool, expected to be `(B, T)`.
        inputs: `(B, T, ...)`.
        name: The tensor's name in the error.

    Raises:
        ValueError: The shape is not `(B, T)`, or the dtype is neither an integer dtype
            nor bool.

    Example:
    >>> check_rows(np.ones((2, 3), "int32"), np.ones((2, 4, 8)), "padding_mask")
    Traceback (most recent call last):
    ValueError: padding_mask has shape (2, 3); expected (2, 4), a number for each token
    """
    shape, expected = tuple(tensor.shape), tuple(inputs.shape[:2])
    if not fits(shape, expected):
        axes = ", ".join("any" if axis is None else str(axis) for axis in expected)
        raise ValueError(
            f"{name} has shape {shape}; expected ({axes}), a number for each token"
        )
    if get_dtype(tensor) != "bool":
        check_integers(tensor, name)


def fits(shape: tuple, expected: tuple) -> bool:
    """Checks that two shapes are compatible; None matches every size.

    Example:
    >>> fits((2, None), (None, 3)), fits((2, 3), (1, 3)), fits((2,), (2, 1))
    (True, False, False)
    """
    return len(shape) == len(expected) and all(
        None in (here, there) or here == there
        for here, there in zip(shape, expected, strict=True)
    )


def check_range(ids, limit: int, name: str, advice: str = "") -> None:
    """Checks that ids are within the rows of a table, if their values are known.

    For ids out of range, TensorFlow returns zeros on a GPU and the last row under XLA;
    JAX returns the last row or NaN.

    Args:
        ids: int, any shape.
        limit: Number of rows.
        name: The name of the ids in the error.
        advice: A hint that is appended to the error message.

    Raises:
        ValueError: An id is below 0, or not below `limit`; checked only in eager
            execution.

    Example:
    >>> check_range(np.array([[3, 10]]), 10, "token_ids")
    Traceback (most recent call last):
    ValueError: token_ids, of shape (1, 2), go from 3 to 10; expected from 0 to 9
    """
    values = known_values(ids)
    if values is None or not values.size:
        return
    if values.min() < 0 or values.max() >= limit:
        raise ValueError(
            f"{name}, of shape {tuple(ids.shape)}, go from {values.min()} to "
            f"{values.max()}; expected from 0 to {limit - 1}{advice}"
        )


def known_values(tensor) -> np.ndarray | None:
    """The values of a tensor; None for a symbolic tensor.

    Example:
    >>> known_values(ops.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    try:
        return ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError, AttributeError):
        return None  # in a TensorFlow graph or a JAX trace


def get_dtype(tensor) -> str:
    """The name of a tensor's dtype, for tensors of any library.

    Example:
    >>> get_dtype(np.ones(2, "int64"))
    'int64'
    """
    return str(getattr(tensor.dtype, "name", tensor.dtype))
