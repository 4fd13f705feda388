"""Answers of models that write: how a text goes on, or what answers it."""

from collections.abc import Mapping
from typing import Any

OUTPUTS = frozenset({"generated_text", "token_ids", "length", "finished", "truncated"})


def read(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a model said of a text.

    Args:
        answer: The outputs' rows for it.

    Returns:
        `generated_text`; `num_tokens`, how many tokens that are; and `finished`,
        whether it came to an end by itself.

    Example:
    >>> read({"generated_text": b" and so on", "length": 3, "finished": False})
    {'generated_text': ' and so on', 'num_tokens': 3, 'finished': False}
    """
    return {
        "generated_text": answer["generated_text"].decode("utf-8"),
        "num_tokens": int(answer["length"]),
        "finished": bool(answer["finished"]),
    }


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """The text, for people."""
    text = prediction["generated_text"].strip("\n")
    end = "" if prediction["finished"] else " …"
    return [f"  → {line}" for line in f"{text}{end}".split("\n")]
