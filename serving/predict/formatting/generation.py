"""Formats generated texts of decoder-only and encoder-decoder models."""

from collections.abc import Mapping
from typing import Any

KEY = "generated_text"
OUTPUTS = (frozenset({"generated_text", "token_ids", "length", "finished"}),)


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs for one text to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `generated_text`; `num_tokens`, its number of tokens; and `finished`, whether
        generation ended at an end token or a stop string.

    Example:
    >>> read("", {"generated_text": b" and so on", "length": 3, "finished": False})
    {'generated_text': ' and so on', 'num_tokens': 3, 'finished': False}
    """
    return {
        "generated_text": answer["generated_text"].decode("utf-8"),
        "num_tokens": int(answer["length"]),
        "finished": bool(answer["finished"]),
    }


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the generated text as lines."""
    text = prediction["generated_text"].strip("\n")
    end = "" if prediction["finished"] else " …"
    return [f"  → {line}" for line in f"{text}{end}".split("\n")]
