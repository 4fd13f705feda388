"""Formats predictions of span corruption models: a text for each `<extra_id_0>`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.predict.formatting import generation

GAP = "<extra_id_0>"
_NOTHING = "(nothing)"
KEY = "fills"
OUTPUTS = tuple(names | {"gaps", "fills"} for names in generation.OUTPUTS)
_GAPS = re.compile(r"<extra_id_\d+>")


def check(texts: Sequence[str]) -> None:
    """Rejects texts without a sentinel.

    Raises:
        ConfigError: A text has no sentinel; the message contains the text.
    """
    for text in texts:
        if not _GAPS.search(text):
            raise ConfigError(
                f"{text!r}: there is no {GAP} to fill; write {GAP}, <extra_id_1> and "
                "so on where something is to be put in"
            )


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the outputs for one text to JSON values.

    Args:
        text: The input text.
        answer: The model's outputs for this text, by name, without the batch axis.

    Returns:
        `gaps`, the sentinels in the model's input; `fills`, a generated text for each
        sentinel; `filled`, the whole text with the sentinels replaced by these texts;
        and the values that `generation.read` returns.
    """
    rows = zip(answer["gaps"], answer["fills"], strict=True)
    pairs = [(gap.decode(), fill.decode()) for gap, fill in rows if gap]
    return {
        "gaps": [gap for gap, _ in pairs],
        "fills": [fill for _, fill in pairs],
        "filled": fill(text, pairs),
        **generation.read(text, answer),
    }


def fill(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Replaces sentinels by texts; sentinels beyond the model's input are kept.

    Args:
        text: Contains the sentinels.
        pairs: Pairs of a sentinel and its text, in the order of the sentinels in the
            input text.

    Example:
    >>> fill("A <extra_id_0> of <extra_id_1>.", [("<extra_id_0>", "list")])
    'A list of <extra_id_1>.'
    """
    left = list(pairs)

    def replacement(found: re.Match[str]) -> str:
        if left and left[0][0] == found[0]:
            return left.pop(0)[1] or found[0]
        return found[0]

    return _GAPS.sub(replacement, text)


def lines(prediction: Mapping[str, Any]) -> list[str]:
    """Formats the text for each sentinel as text lines."""
    gaps = prediction["gaps"]
    width = max(map(len, gaps), default=0)
    pairs = zip(gaps, prediction["fills"], strict=True)
    return [f"  {gap:<{width}}  {fill or _NOTHING}" for gap, fill in pairs]
