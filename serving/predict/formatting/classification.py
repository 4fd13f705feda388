"""Formats predictions of classifiers: class probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np

KEY = "classes"
OUTPUTS = (
    frozenset({"label", "classes", "scores"}),
    frozenset({"labels", "classes", "scores"}),
)
_SHOWN = 5


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs for one text or image to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `label`, or `labels` of a multi-label model; and `classes`: a list of `label`
        and `score`, the most probable first.

    Example:
    >>> answer = {
    ...     "label": b"yes",
    ...     "classes": np.array([b"no", b"yes"]),
    ...     "scores": np.array([0.25, 0.75]),
    ... }
    >>> read("", answer)["classes"][0]
    {'label': 'yes', 'score': 0.75}
    """
    order = np.argsort(-answer["scores"], kind="stable")
    if "labels" in answer:
        named: dict[str, Any] = {
            "labels": [one.decode("utf-8") for one in answer["labels"] if one]
        }
    else:
        named = {"label": answer["label"].decode("utf-8")}
    return {
        **named,
        "classes": [
            {
                "label": answer["classes"][index].decode("utf-8"),
                "score": float(answer["scores"][index]),
            }
            for index in order
        ],
    }


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the most probable classes as text lines."""
    shown = prediction["classes"][:_SHOWN]
    width = max(len(one["label"]) for one in shown)
    rows = [f"  {one['label']:<{width}}  {one['score']:6.1%}" for one in shown]
    if "labels" in prediction:
        rows.append(f"  → {', '.join(prediction['labels']) or '(no label)'}")
    return rows
