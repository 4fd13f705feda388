"""Helpers for additive score biases."""

import keras
from keras import ops

from transbeam.model.base.tensor_checks import check_integers


def keys_ahead(query_positions, key_positions, name: str):
    """Computes key position minus query position for each pair.

    Args:
        query_positions: int `(..., Q)`.
        key_positions: int `(..., S)`; the leading axes broadcast with those of the
            queries' positions.
        name: The layer's name, for error messages.

    Returns:
        int `(..., Q, S)`.

    Raises:
        ValueError: Positions are not integers, or are a scalar.

    Example:
    >>> ahead = keys_ahead(ops.array([0, 1]), ops.array([0, 1, 2]), "bias")
    >>> ops.convert_to_numpy(ahead)
    array([[ 0,  1,  2],
           [-1,  0,  1]], dtype=int32)
    """
    for kind, positions in (("query", query_positions), ("key", key_positions)):
        check_integers(positions, f"{name}: {kind}_positions")
        if len(positions.shape) == 0:  # `not shape` is false for TensorFlow's ()
            raise ValueError(
                f"{name}: {kind}_positions has shape (); expected (..., length)"
            )
    return ops.expand_dims(key_positions, -2) - ops.expand_dims(query_positions, -1)


def score_spec(query_positions, key_positions, num_heads: int | None):
    """The symbolic output of a score bias: float32 `(..., H, Q, S)`.

    Example:
    >>> queries, keys = keras.KerasTensor((None, 3)), keras.KerasTensor((None, 5))
    >>> score_spec(queries, keys, num_heads=2).shape
    (None, 2, 3, 5)
    """
    pairs = ops.expand_dims(key_positions, -2) - ops.expand_dims(query_positions, -1)
    *rows, queries, keys = pairs.shape
    return keras.KerasTensor((*rows, num_heads, queries, keys), dtype="float32")
