"""Answers of models that fill gaps: what stands in each `<extra_id_0>`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.predict.formatting import generation

GAP = "<extra_id_0>"
_NOTHING = "(nothing)"
OUTPUTS = generation.OUTPUTS | {"gaps", "fills"}
_GAPS = re.compile(r"<extra_id_\d+>")


def check(texts: Sequence[str]) -> None:
    """Refuses texts without a gap.

    Raises:
        ConfigError: With the text.
    """
    for text in texts:
        if not _GAPS.search(text):
            raise ConfigError(
                f"{text!r}: there is no {GAP} to fill; write {GAP}, <extra_id_1> and "
                "so on where something is to be put in"
            )


def read(text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a model said of a text.

    Args:
        text: As it was asked about.
        answer: The outputs' rows for it.

    Returns:
        `gaps`, those that were read; `fills`, a text for each of them; `filled`, the
        whole text with them in it; and what `generation.read` gives.
    """
    rows = zip(answer["gaps"], answer["fills"], strict=True)
    pairs = [(gap.decode(), fill.decode()) for gap, fill in rows if gap]
    return {
        "gaps": [gap for gap, _ in pairs],
        "fills": [fill for _, fill in pairs],
        "filled": fill(text, pairs),
        **generation.read(answer),
    }


def fill(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Puts texts in the place of gaps; what is no gap to the model stays.

    Args:
        text: Has the gaps.
        pairs: Of a gap and what stands there, in their order in the text.

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
    """The same for people."""
    gaps = prediction["gaps"]
    width = max(map(len, gaps), default=0)
    pairs = zip(gaps, prediction["fills"], strict=True)
    return [f"  {gap:<{width}}  {fill or _NOTHING}" for gap, fill in pairs]
