"""Numbers that summarize the attention map of each head."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transbeam.model.inspect.attention_statistics import OFFSETS

# Means over the tokens of one text, as `transbeam analyze` computes them over many:
# see `attention_statistics`. Weights of a token sum to 1.
SUMMARIES: Mapping[str, str] = {
    "entropy": "Entropy of the weights in nats, -sum(a ln a)",
    "confidence": "Largest weight (Voita et al., 2019)",
    "distance": "Distance |i - j| in tokens, weighted by the weights",
    "self": "Weight on the token itself",
    "previous": "Weight on the previous token; 0 for the first one",
    "next": "Weight on the next token; 0 for the last one",
    "first": "Weight on the first token",
    "first_to_second": "Weight of the first text's tokens on those of the second text",
    "second_to_first": "Weight of the second text's tokens on those of the first text",
}
_NAMES = {"self": 0, "previous": -1, "next": 1}


def summarize_heads(
    sums: Mapping[str, Any], maps: np.ndarray, texts: Sequence[int | None]
) -> dict[str, np.ndarray | None]:
    """Summarizes each head of a layer, for one text or pair.

    Args:
        sums: The layer's sums of `attention_statistics`, for one row.
        maps: float32 `(H, T, S)`: the layer's weights.
        texts: Index of the text of each token, None for special tokens; empty in
            cross-attention, where queries and keys are of other rows.

    Returns:
        float32 `(H,)` by the names of `SUMMARIES`; None for a summary that is not
        defined.

    Example:
    >>> maps = np.float32([[[1, 0, 0], [0, 0.5, 0.5], [0.25, 0.75, 0]]])
    >>> sums = {"queries": [3], "entropy": [[1.2556]], "confidence": [[2.25]]}
    >>> found = summarize_heads(sums, maps, [0, None, 1])
    >>> {name: round(float(values[0]), 4) for name, values in found.items()
    ...     if values is not None}  # doctest: +NORMALIZE_WHITESPACE
    {'entropy': 0.4185, 'confidence': 0.75, 'first_to_second': 0.0,
     'second_to_first': 0.25}
    """
    means = {
        name: np.asarray(values)[0] / np.asarray(sums["queries"])[0]
        for name, values in sums.items()
        if name in SUMMARIES or name == "offsets"
    }
    found: dict[str, np.ndarray | None] = dict.fromkeys(SUMMARIES)
    if "offsets" in means:
        offsets = means.pop("offsets")  # (H, 17)
        for name, offset in _NAMES.items():
            found[name] = offsets[:, OFFSETS.index(offset)]
    found |= means
    first, second = (np.array([text == x for text in texts]) for x in (0, 1))
    if first.any() and second.any():
        found["first_to_second"] = maps[:, first][:, :, second].sum(2).mean(1)
        found["second_to_first"] = maps[:, second][:, :, first].sum(2).mean(1)
    return found


def pool_maps(maps: np.ndarray, most: int, reduce: np.ufunc = np.maximum) -> np.ndarray:
    """Reduces maps to a size for small pictures, each cell the maximum of a square.

    The maximum keeps single strong weights visible, which a mean would blur.

    Args:
        maps: `(H, T, S)`.
        most: The largest number of rows and columns of the result.
        reduce: Reduces a square; the maximum by default.

    Returns:
        `(H, T', S')`, of the same dtype.

    Example:
    >>> pool_maps(np.arange(9.0).reshape(1, 3, 3), most=2).tolist()
    [[[4.0, 5.0], [7.0, 8.0]]]
    """
    step = -(-max(maps.shape[1:]) // most)
    if step == 1:
        return maps
    rows, columns = (np.arange(0, size, step) for size in maps.shape[1:])
    return reduce.reduceat(reduce.reduceat(maps, rows, axis=1), columns, axis=2)
