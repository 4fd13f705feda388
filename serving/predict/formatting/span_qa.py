"""Formats predictions of extractive question answering models."""

from collections.abc import Mapping
from typing import Any

KEY = "answer"
OUTPUTS = (frozenset({"answer", "start", "end", "score", "no_answer_score"}),)


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs for one context to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `answer` with `start` and `end`, its offsets in the context; `score` and
        `no_answer_score`.

    Example:
    >>> found = read("", {"answer": b"Oslo", "start": 3, "end": 7, "score": 2.0,
    ...               "no_answer_score": -1.0})
    >>> found["answer"], found["end"]
    ('Oslo', 7)
    """
    return {
        "answer": answer["answer"].decode("utf-8", "replace"),
        "start": int(answer["start"]),
        "end": int(answer["end"]),
        "score": float(answer["score"]),
        "no_answer_score": float(answer["no_answer_score"]),
    }


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the answer as a text line."""
    offsets = f"{prediction['start']}-{prediction['end']}"
    scores = f"{prediction['score']:.3g}, none {prediction['no_answer_score']:.3g}"
    answer = prediction["answer"] or "(no answer)"
    return [f"  → {answer}  ({offsets}; score {scores})"]
