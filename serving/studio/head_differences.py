"""Differences between the attention maps of two models on the same tokens."""

from typing import Any

import numpy as np

from transbeam.serving.studio.head_summaries import pool_maps
from transbeam.serving.studio.inspected_model import Inspection, MapGroup


def total_variation(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Computes how far the weights of each head are from those of another model.

    The total variation of two distributions is half of the sum of the absolute
    differences: the share of the weight that a token puts elsewhere, from 0 to 1.

    Args:
        maps: `(H, T, S)`: weights of T queries over S keys.
        others: Weights of the other model, in the same shape.

    Returns:
        float32 `(H,)`, means over the queries.

    Example:
    >>> one = np.float16([[[1, 0], [0.5, 0.5]]])
    >>> other = np.float16([[[0, 1], [0.5, 0.5]]])
    >>> total_variation(one, other).tolist()
    [0.5]
    """
    differences = np.abs(others.astype(np.float32) - maps.astype(np.float32))
    return 0.5 * differences.sum(axis=2).mean(axis=1)


def pool_differences(differences: np.ndarray, most: int) -> np.ndarray:
    """Reduces differences to a size for small pictures.

    Each cell is the one of a square with the largest absolute value, with its sign.

    Args:
        differences: `(H, T, S)`.
        most: The largest number of rows and columns of the result.

    Returns:
        `(H, T', S')`, of the same dtype.

    Example:
    >>> differences = np.array([[[1, -3], [2, 0]]])
    >>> pool_differences(differences, most=1).tolist()
    [[[-3]]]
    """
    highest = pool_maps(differences, most)
    lowest = pool_maps(differences, most, np.minimum)
    return np.where(highest >= -lowest, highest, lowest)


def why_no_differences(one: Inspection, other: Inspection) -> str | None:
    """Returns why the maps of two inspections cannot be subtracted; None if they can.

    Args:
        one: The first inspection.
        other: The second inspection.
    """
    if [group.name for group in one.groups] != [group.name for group in other.groups]:
        return "the models have other kinds of attention"
    for rows in zip(one.rows, other.rows, strict=True):
        counts = [len(row.tokens) for row in rows]
        if counts[0] != counts[1]:
            return (
                f"they read other tokens: {counts[0]:,} and {counts[1]:,} in the row "
                f"{rows[0].name!r}"
            )
        pieces = [[token.piece for token in row.tokens] for row in rows]
        if pieces[0] != pieces[1]:
            return "they read other tokens"
    shapes = [
        [maps.shape for group in inspection.groups for maps in group.maps]
        for inspection in (one, other)
    ]
    if shapes[0] != shapes[1]:
        return f"they have {_size(one)}, and {_size(other)}"
    return None


def _size(inspection: Inspection) -> str:
    """Describes the layers and heads of a model."""
    parts = []
    for group in inspection.groups:
        heads = sorted({maps.shape[0] for maps in group.maps})
        of = " or ".join(map(str, heads))
        layers = "layer" if len(group.maps) == 1 else "layers"
        parts.append(f"{len(group.maps)} {layers} of {of} heads")
    return " + ".join(parts)


def head_differences(one: MapGroup, other: MapGroup) -> dict[str, Any]:
    """Returns the total variation of each head of a group, as a JSON object.

    Args:
        one: A group of the first model.
        other: The same group of the second model.
    """
    pairs = zip(one.maps, other.maps, strict=True)
    return {
        "name": one.name,
        "layers": [
            np.round(total_variation(*pair).astype(float), 5).tolist() for pair in pairs
        ],
    }
