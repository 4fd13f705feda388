"""Formatting of numbers."""

from collections.abc import Mapping
from typing import Any

KEY = "score"
OUTPUTS = (frozenset({"score"}),)


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs for one input to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `score`.
    """
    return {"score": float(answer["score"])}


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the number as a line of text.

    Example:
    >>> lines({"score": 0.12345})
    ['  0.1235']
    """
    return [f"  {prediction['score']:.4g}"]
