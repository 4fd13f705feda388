"""Rank correlation of the rows of two arrays.

References:
    - Spearman, 1904, [The proof and measurement of association between two
      things](https://doi.org/10.2307/1412159)
"""

from typing import Any

from keras import ops


def average_ranks(values: Any, counted: Any) -> Any:
    """Ranks the counted values of each row from 0; equal values get their mean rank.

    Args:
        values: float `(..., N)`.
        counted: bool, broadcastable to `values`. The others have ranks above all.

    Returns:
        float32 `(..., N)`.

    Example:
    >>> values = ops.array([0.5, 0.1, 0.5, 0.9])
    >>> counted = ops.array([True, True, True, False])
    >>> ops.convert_to_numpy(average_ranks(values, counted)[:3]).tolist()
    [1.5, 0.0, 1.5]
    """
    values = ops.where(counted, ops.cast(values, "float32"), float("inf"))
    # A stable sort ranks equal values in their order, and from behind in the opposite.
    ranks = _ordinal_ranks(values) + ops.flip(_ordinal_ranks(ops.flip(values, -1)), -1)
    return ops.cast(ranks, "float32") / 2


def correlate_ranks(values: Any, others: Any, counted: Any) -> tuple[Any, Any]:
    """Computes Spearman's rank correlation of each pair of rows.

    Args:
        values: float `(..., N)`.
        others: float, broadcastable to `values`.
        counted: bool, broadcastable to `values`: the pairs of values that count.

    Returns:
        The correlation, float32 `(...)`, and whether it is defined, bool `(...)`: with
        three pairs or more, and values that differ in both rows. It is 0 elsewhere.

    Example:
    >>> found, defined = correlate_ranks(
    ...     ops.array([[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]]),
    ...     ops.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]),
    ...     ops.ones((2, 3), dtype="bool"),
    ... )
    >>> ops.convert_to_numpy(found).tolist(), ops.convert_to_numpy(defined).tolist()
    ([1.0, 0.0], [True, False])
    """
    weight = ops.cast(counted, "float32")
    number = ops.sum(weight, axis=-1)
    x, y = (
        _centered(average_ranks(part, counted), weight, number)
        for part in (values, others)
    )
    size = ops.sum(x * x, axis=-1) * ops.sum(y * y, axis=-1)
    # Ranks are halves of integers: sums of squares of different ones exceed 1/4.
    defined = ops.logical_and(number > 2, size > 1e-3)
    root = ops.sqrt(ops.where(defined, size, 1.0))
    return ops.where(defined, ops.sum(x * y, axis=-1) / root, 0.0), defined


def _ordinal_ranks(values: Any) -> Any:
    return ops.argsort(ops.argsort(values, axis=-1), axis=-1)


def _centered(ranks: Any, weight: Any, number: Any) -> Any:
    mean = ops.sum(ranks * weight, axis=-1) / ops.maximum(number, 1.0)
    return (ranks - mean[..., None]) * weight
