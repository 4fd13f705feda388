"""Work on blocks of a sequence, some blocks at a time."""

from collections.abc import Callable, Sequence
from typing import Any

from model.kernels import on_tensorflow


def in_groups(
    function: Callable[[list[Any], list[Any], list[Any]], Any],
    rows: Sequence[Any],
    columns: Sequence[Any],
    trained: Sequence[Any],
    work: Any,
) -> Any:
    """Calls a function of blocks, which sees only some blocks on either side of each.

    With TensorFlow it is called for a group of blocks after the other, and again for
    the gradient: what it makes in between is never there for all blocks at once. Other
    backends get all blocks in one call.

    Shapes: `N` blocks, of which each sees `W` columns.

    Args:
        function: `function(rows, columns, trained)` gives a tensor `(N, ...)`, or fewer
            blocks when it is given fewer. Nothing in it may be random.
        rows: Tensors `(N, ...)`.
        columns: Tensors `(N + W - 1, ...)`; block `n` sees those from `n` to
            `n + W - 1`.
        trained: Other tensors whose gradient counts.
        work: int or scalar tensor, how many numbers the largest tensor that the
            function makes has for each block.

    Returns:
        What the function gives for all blocks.

    Example:
    >>> from keras import ops
    >>> def sums(rows, columns, trained):
    ...     return rows[0] + columns[0][:-1] + columns[0][1:]
    >>> ops.convert_to_numpy(
    ...     in_groups(sums, [ops.arange(3)], [ops.arange(4) * 10], [], work=2)
    ... )
    array([10, 31, 52], dtype=int32)
    """
    if on_tensorflow():
        from model.kernels.groups_tensorflow import in_groups as one_by_one

        return one_by_one(function, rows, columns, trained, work)
    return function(list(rows), list(columns), list(trained))
