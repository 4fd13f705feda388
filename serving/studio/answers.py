"""Predictions of one model for one text, as probabilities of named outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

# `fills` of masks, one of `classes`, any of `labels`, a `number`, `tags` of words,
# `spans` of a context, and next `tokens`.
AnswerKind = Literal["fills", "classes", "labels", "number", "tags", "spans", "tokens"]


@dataclass(frozen=True)
class Outcomes:
    """The possible predictions of a model: classes, pieces or spans.

    Attributes:
        names: Names by which the outcomes of two models are the same; each another one.
        shown: The name of each on the page.
    """

    names: tuple[str, ...]
    shown: tuple[str, ...]

    @classmethod
    def from_shown(cls, shown: Sequence[str]) -> "Outcomes":
        """Makes outcomes of which some may look alike, as pieces of a vocabulary do.

        Example:
        >>> Outcomes.from_shown(["a", "?", "?"]).names
        ('a', '?', '? 2')
        """
        seen: set[str] = set()
        names = []
        for number, name in enumerate(shown):
            while name in seen:
                name = f"{name} {number}"
            seen.add(name)
            names.append(name)
        return cls(tuple(names), tuple(shown))


@dataclass(frozen=True)
class Prediction:
    """A prediction: of a mask, a word, the next token, or the whole text.

    Attributes:
        number: Its number in the text: of the mask, the word or the token.
        text: The word; of a next token, the text before it; else empty.
        probabilities: float64 `(C,)`, of each outcome; of a number the number itself.
        actual: Index of the outcome that the text has there; None if it has none.
    """

    number: int
    text: str
    probabilities: np.ndarray
    actual: int | None = None


@dataclass(frozen=True)
class Answer:
    """The predictions of a model for a text.

    Attributes:
        kind: The kind of the outcomes.
        outcomes: The outcomes.
        predictions: In the order of the text.
        row: Ids of the tokens that were read; empty if they do not matter.
        written: The text that the model writes; None if it writes none.
        left_out: Number of predictions that were left out at the start of a long text.
    """

    kind: AnswerKind
    outcomes: Outcomes
    predictions: Sequence[Prediction]
    row: Sequence[int] = ()
    written: str | None = None
    left_out: int = 0


def softmax(logits: np.ndarray) -> np.ndarray:
    """Computes probabilities along the last axis, in float64.

    Example:
    >>> softmax(np.array([0, np.log(3)])).round(6).tolist()
    [0.25, 0.75]
    """
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    shares = np.exp(shifted)
    return shares / shares.sum(axis=-1, keepdims=True)
