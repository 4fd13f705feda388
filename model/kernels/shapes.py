"""Reshapes with inferred instead of computed sizes."""

from collections.abc import Sequence
from typing import Any

from keras import ops


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """Calls `ops.reshape`, with a single unknown size inferred (-1).

    In a graph for texts of any length, that length is a tensor. If the length is passed
    explicitly, TensorFlow has to slice it from a shape and pack it into the new shape
    at each call: three small ops per reshape, which TFLite cannot delegate.

    Args:
        x: A tensor.
        shape: The new sizes, each an int or a scalar tensor.

    Example:
    >>> tuple(reshape(ops.zeros((1, 6)), (1, ops.array(2), 3)).shape)
    (1, 2, 3)
    """
    unknown = [number for number, size in enumerate(shape) if not _is_known(size)]
    if len(unknown) == 1:
        shape = [-1 if number in unknown else size for number, size in enumerate(shape)]
    return ops.reshape(x, shape)


def _is_known(size: Any) -> bool:
    # Keras's symbolic sizes are None.
    return isinstance(size, int)
