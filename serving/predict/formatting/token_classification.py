"""Formats predictions of taggers: a tag for each word, and the entities."""

from collections.abc import Mapping
from typing import Any

import numpy as np

_OF_WORDS = frozenset({"words", "starts", "ends", "tags", "scores"})
_OF_ENTITIES = frozenset({"entities", "entity_types", "entity_starts", "entity_ends"})
# Only tag sets that mark entities have the outputs for entities.
KEY = "words"
OUTPUTS = (_OF_WORDS, _OF_WORDS | _OF_ENTITIES)


def read(text: str, answer: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Converts the outputs for one text to JSON values.

    Args:
        text: The input, which is not used.
        answer: The model's outputs for this input, by name, without the batch axis.

    Returns:
        `words`: a list of `word`, `start`, `end`, `tag` and `score`. If the tags mark
        entities, also `entities`: a list of `entity`, `type`, `start` and `end`.

    Example:
    >>> answer = {
    ...     "words": np.array([b"Oslo", b""]),
    ...     "starts": np.array([0, 0]),
    ...     "ends": np.array([4, 0]),
    ...     "tags": np.array([b"PROPN", b""]),
    ...     "scores": np.array([0.5, 0.0]),
    ... }
    >>> read("", answer)["words"]
    [{'word': 'Oslo', 'start': 0, 'end': 4, 'tag': 'PROPN', 'score': 0.5}]
    """
    columns = (answer[name] for name in ("words", "starts", "ends", "tags", "scores"))
    found: dict[str, Any] = {
        "words": [
            {
                "word": word.decode("utf-8", "replace"),
                "start": int(start),
                "end": int(end),
                "tag": tag.decode("utf-8"),
                "score": float(score),
            }
            for word, start, end, tag, score in zip(*columns, strict=True)
            if word
        ]
    }
    if "entities" in answer:
        names = ("entities", "entity_types", "entity_starts", "entity_ends")
        found["entities"] = [
            {
                "entity": entity.decode("utf-8", "replace"),
                "type": kind.decode("utf-8"),
                "start": int(start),
                "end": int(end),
            }
            for entity, kind, start, end in zip(
                *(answer[name] for name in names), strict=True
            )
            if entity
        ]
    return found


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the entities, or the tags if there are no entity tags, as text lines."""
    if "entities" in prediction:
        rows = [(each["type"], each["entity"]) for each in prediction["entities"]]
        if not rows:
            return ["  no entity"]
    else:
        rows = [
            (each["tag"], f"{each['word']}  {each['score']:.1%}")
            for each in prediction["words"]
        ]
    width = max((len(tag) for tag, _ in rows), default=0)
    return [f"  {tag:<{width}}  {what}" for tag, what in rows]
