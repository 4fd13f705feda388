"""Formats predictions of embedding models: one vector per text."""

from collections.abc import Mapping
from typing import Any

import numpy as np

KEY = "embedding"
OUTPUTS = (frozenset({"embedding"}),)
_SHOWN = 4


def read(text: str, answer: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Converts the embedding of one text to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `embedding`, a list of numbers.
    """
    return {"embedding": [float(entry) for entry in answer["embedding"]]}


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the first entries of the vector as a text line.

    Example:
    >>> lines({"embedding": [0.6, -0.8, 0.0, 0.0, 0.0]})
    ['  0.6 -0.8 0 0 … (5 entries, length 1)']
    """
    vector = prediction["embedding"]
    shown = " ".join(f"{entry:.4g}" for entry in vector[:_SHOWN])
    more = " …" if len(vector) > _SHOWN else ""
    length = float(np.linalg.norm(vector))
    return [f"  {shown}{more} ({len(vector)} entries, length {length:.4g})"]
