"""Changing shapes without computing sizes."""

from collections.abc import Sequence
from typing import Any

from keras import ops


def reshape(x: Any, shape: Sequence[Any]) -> Any:
    """`ops.reshape`, which finds out by itself the one size that is not known.

    In a graph for texts of any length, that length is a tensor. Asked for by its name,
    TensorFlow has to cut it out of a shape and put it into the new one at each call,
    three small ops for every change of shape, which TFLite cannot even hand to the
    kernels that do the rest.

    Args:
        x: A tensor.
        shape: int or scalar tensor each.

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
