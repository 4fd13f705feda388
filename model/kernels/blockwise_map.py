"""Work on blocks of a sequence, some blocks at a time."""

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
    """Calls a function of blocks, each of which sees only some blocks on either side.

    With TensorFlow it is called for one group of blocks after the other, and again for
    the gradient: what it makes in between is never there for all blocks at once. Other
    backends get all blocks in one call.

    Shapes: `N` blocks, of which each sees `W` columns.

    Args:
        function: `function(rows, columns, marks, trained)` gives a tensor like the
            first of `rows`, of fewer blocks when it is given fewer. It may not be
            random.
        rows: Floats `(N, ...)`.
        columns: Floats `(N + W - 1, ...)`; block `n` sees those from `n` to
            `n + W - 1`.
        marks: Whole numbers or flags `(N, ...)`.
        trained: Other floats whose gradient counts.
        work: int or scalar tensor, how many numbers the largest tensor that the
            function makes has for each block.

    Returns:
        What the function gives for all blocks.

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
