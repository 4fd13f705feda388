"""Applies a function to blocks of a sequence, some blocks at a time."""

from collections.abc import Callable, Sequence
from typing import Any

from transbeam.model.kernels.dispatch import on_tensorflow

Tensors = Sequence[Any]


def in_groups(
    function: Callable[[Tensors, Tensors, Tensors, Tensors], Any],
    rows: Tensors,
    columns: Tensors,
    marks: Tensors,
    trained: Tensors,
    work: Any,
) -> Any:
    """Calls a function on blocks of a sequence, each with a window around it.

    With TensorFlow the function is called for one group of blocks after the other, and
    again for the gradient, so its intermediate results never exist for all blocks at
    once. With other backends the function is called once for all blocks.

    Shapes: `N` blocks, each with a window of `W` columns.

    Args:
        function: `function(rows, columns, marks, trained)` returns a tensor like the
            first of `rows`, with as many blocks as its input. `function` must be
            deterministic.
        rows: Float tensors `(N, ...)`.
        columns: Float tensors `(N + W - 1, ...)`; the window of block `n` consists of
            columns `n` to `n + W - 1`.
        marks: Integers or bools `(N, ...)`.
        trained: Further float tensors that get gradients.
        work: int or scalar tensor, the size per block of the largest tensor that the
            function computes.

    Returns:
        The function's results for all blocks.

    Example:
    >>> from keras import ops
    >>> def sums(rows, columns, marks, trained):
    ...     return rows[0] + columns[0][:-1] + columns[0][1:]
    >>> row, column = ops.arange(3.0), ops.arange(4.0) * 10
    >>> ops.convert_to_numpy(in_groups(sums, [row], [column], [], [], work=2))
    array([10., 31., 52.], dtype=float32)
    """
    if on_tensorflow():
        from transbeam.model.kernels.blockwise_map_tensorflow import (
            in_groups as one_by_one,
        )

        return one_by_one(function, rows, columns, marks, trained, work)
    return function(rows, columns, marks, trained)
