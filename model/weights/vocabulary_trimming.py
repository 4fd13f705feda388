"""Weights of a model whose vocabulary has become smaller."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

# Along which axis of a weight the tokens lie, of all that have one for each.
AXES = {"token_embedding/embeddings": 0, "logits/kernel": 1, "head_bias/bias": 0}
# Which of them has rows past the vocabulary.
_ROUNDED_UP = "token_embedding/embeddings"


def of_some_tokens(
    weights: Mapping[str, np.ndarray], old_ids: Sequence[int], rows: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Takes of every weight what belongs to some tokens; others pass as they are.

    Args:
        weights: By path.
        old_ids: Of each token that is left, the id that it had.
        rows: How many rows the token table is to have; those past the tokens, which no
            id reads, are zeros.

    Returns:
        Pairs of path and values.

    Example:
    >>> weights = {"token_embedding/embeddings": np.array([[1.0], [2.0], [3.0]])}
    >>> ((_, table),) = of_some_tokens(weights, old_ids=[0, 2], rows=4)
    >>> table.ravel()
    array([1., 3., 0., 0.])
    """
    for path, values in weights.items():
        if path in AXES:
            values = np.take(values, old_ids, axis=AXES[path])
        if path == _ROUNDED_UP:
            values = np.pad(values, ((0, rows - len(old_ids)), (0, 0)))
        yield path, values
