"""Formats predictions of masked language models: the tokens for each `[MASK]`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from transbeam.configs.base.errors import ConfigError

MASK = "[MASK]"
KEY = "masks"
OUTPUTS = (frozenset({"fills", "scores"}),)
_CONTINUATION = "##"


def check(texts: Sequence[str]) -> None:
    """Rejects texts without a mask.

    Raises:
        ConfigError: A text has no mask; the message contains the text.
    """
    for text in texts:
        if MASK not in text:
            raise ConfigError(
                f"{text!r}: there is no {MASK} to fill; write {MASK} where a word is "
                "to be guessed"
            )


def read(text: str, answer: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Converts the outputs for one text to JSON values.

    Args:
        text: The input text.
        answer: The model's outputs for this text, by name, without the batch axis.

    Returns:
        `masks` (for each mask a list of `piece` and `score`, the most probable first)
        and `filled` (the text with the best pieces filled in).
    """
    masks = [
        [
            {"piece": piece.decode("utf-8"), "score": float(score)}
            for piece, score in zip(pieces, row, strict=True)
        ]
        for pieces, row in zip(answer["fills"], answer["scores"], strict=True)
        if pieces[0]
    ]
    best = [guesses[0]["piece"] for guesses in masks]
    return {"masks": masks, "filled": fill(text, best)}


def fill(text: str, pieces: Sequence[str]) -> str:
    """Replaces the first masks by predicted pieces; further masks are kept.

    A `##` piece, which continues a word, is joined to the text before it.

    Example:
    >>> fill("A [MASK] [MASK] of [MASK].", ["ten", "##sor"])
    'A tensor of [MASK].'
    """
    head, *parts = text.split(MASK)
    for piece, part in zip(pieces, parts, strict=False):
        if piece.startswith(_CONTINUATION):
            head = head.rstrip() + piece.removeprefix(_CONTINUATION) + part
        else:
            head += piece + part
    return MASK.join([head, *parts[len(pieces) :]])


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the predictions for each mask as text lines."""
    found = []
    for number, guesses in enumerate(prediction["masks"], start=1):
        width = max(len(guess["piece"]) for guess in guesses)
        for rank, guess in enumerate(guesses):
            label = f"{MASK} {number}" if rank == 0 else ""
            found.append(
                f"  {label:<10} {guess['piece']:<{width}}  {guess['score']:6.1%}"
            )
    return found
