"""Numbers that summarize the attention map of each head."""

from collections.abc import Mapping

import numpy as np

# Means over the queries of one text; weights of a query sum to 1.
SUMMARIES: Mapping[str, str] = {
    "entropy": "Entropy of the weights in nats, -sum(a ln a)",
    "confidence": "Largest weight (Voita et al., 2019)",
    "distance": "Distance |i - j| in tokens, weighted by the weights",
    "self": "Weight on the token itself",
    "previous": "Weight on the previous token, of tokens that have one",
    "next": "Weight on the next token, of tokens that have one",
    "first": "Weight on the first token",
}


def summarize_heads(
    maps: np.ndarray, *, same_tokens: bool
) -> dict[str, np.ndarray | None]:
    """Computes the summaries of each head of a layer, for one text.

    Args:
        maps: float32 `(H, T, S)`: weights of T queries over S keys, without padding.
        same_tokens: Whether queries and keys are the same tokens; in cross-attention
            they are not, and there is no distance and no own, previous or next token.

    Returns:
        float32 `(H,)` by the names of `SUMMARIES`; None for a summary that is not
        defined.

    Example:
    >>> maps = np.float32([[[1, 0], [0.5, 0.5]]])
    >>> found = summarize_heads(maps, same_tokens=True)
    >>> {name: round(float(values[0]), 4) for name, values in found.items()
    ...     if values is not None}  # doctest: +NORMALIZE_WHITESPACE
    {'entropy': 0.3466, 'confidence': 0.75, 'distance': 0.25, 'self': 0.75,
     'previous': 0.5, 'next': 0.0, 'first': 0.75}

    References:
        Clark et al., 2019, What Does BERT Look At?, sections 3.1 and 3.3; Voita et
        al., 2019, Analyzing Multi-Head Self-Attention, section 5.1.
    """
    logarithms = np.log(np.where(maps > 0, maps, 1))
    found: dict[str, np.ndarray | None] = dict.fromkeys(SUMMARIES)
    found |= {
        "entropy": -(maps * logarithms).sum(axis=2).mean(axis=1),
        "confidence": maps.max(axis=2).mean(axis=1),
        "first": maps[:, :, 0].mean(axis=1),
    }
    if same_tokens:
        places = np.arange(maps.shape[1])
        distances = np.abs(places[:, None] - places).astype(np.float32)
        weighted = np.einsum("hts,ts->ht", maps, distances)
        found |= {
            "distance": weighted.mean(axis=1),
            "self": _diagonal_mean(maps, 0),
            "previous": _diagonal_mean(maps, -1),
            "next": _diagonal_mean(maps, 1),
        }
    return found


def _diagonal_mean(maps: np.ndarray, offset: int) -> np.ndarray | None:
    """Returns the mean weight at an offset; None if a single token has no neighbor."""
    diagonal = np.diagonal(maps, offset, axis1=1, axis2=2)
    return diagonal.mean(axis=1) if diagonal.size else None


def pool_maps(maps: np.ndarray, most: int) -> np.ndarray:
    """Reduces maps to a size for small pictures, each cell the maximum of a square.

    The maximum keeps single strong weights visible, which a mean would blur.

    Args:
        maps: `(H, T, S)`.
        most: The largest number of rows and columns of the result.

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
    pooled = np.maximum.reduceat(maps, rows, axis=1)
    return np.maximum.reduceat(pooled, columns, axis=2)
