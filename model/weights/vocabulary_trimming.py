"""Slices a model's weights to a smaller vocabulary."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

# The token axis of each weight that has one.
AXES = {"token_embedding/embeddings": 0, "logits/kernel": 1, "head_bias/bias": 0}
# The only one of these weights that has padding rows after the vocabulary.
_ROUNDED_UP = "token_embedding/embeddings"


def slice_vocabulary(
    weights: Mapping[str, np.ndarray], old_ids: Sequence[int], rows: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Slices weights along their token axis; keeps weights without a token axis.

    Args:
        weights: Weights by path.
        old_ids: The old id of each remaining token.
        rows: Number of rows of the new token embedding; the padding rows after the
            tokens are zeros.

    Returns:
        Pairs of path and values.

    Example:
    >>> weights = {"token_embedding/embeddings": np.array([[1.0], [2.0], [3.0]])}
    >>> ((_, table),) = slice_vocabulary(weights, old_ids=[0, 2], rows=4)
    >>> table.ravel()
    array([1., 3., 0., 0.])
    """
    for path, values in weights.items():
        if path in AXES:
            values = np.take(values, old_ids, axis=AXES[path])
        if path == _ROUNDED_UP:
            values = np.pad(values, ((0, rows - len(old_ids)), (0, 0)))
        yield path, values
