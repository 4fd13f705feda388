"""Vectors of words from the vectors of their tokens."""

from typing import Any

from keras import ops


def average_words(states: Any, membership: Any) -> Any:
    """Averages the vectors of each word's tokens.

    Args:
        states: float `(B, T, D)`.
        membership: `(B, T, W)`, 1 where a token is a part of a word; see
            `transbeam.model.inspect.word_attention.word_membership`.

    Returns:
        float32 `(B, W, D)`; zeros for a word without tokens.

    Example:
    >>> import numpy as np
    >>> states = np.array([[[1.0, 0.0], [2.0, 4.0], [4.0, 0.0]]])
    >>> membership = np.array([[[1, 0], [0, 1], [0, 1]]])
    >>> ops.convert_to_numpy(average_words(states, membership))[0]
    array([[1., 0.],
           [3., 2.]], dtype=float32)
    """
    member = ops.cast(membership, "float32")
    tokens = ops.maximum(ops.sum(member, axis=1), 1.0)  # (B, W)
    mean = ops.swapaxes(member / ops.expand_dims(tokens, 1), 1, 2)
    return ops.matmul(mean, ops.cast(states, "float32"))
