"""Differences between the predictions of two models for one text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from transbeam.serving.studio.answers import Answer, Outcomes, Prediction

# Outcomes of a prediction that are shown: the most probable ones of each model, and
# those that differ most.
_SHOWN = 5
# Classes, labels and tags are all shown up to this number.
_ALL = 12
# Probabilities are rounded.
_DIGITS = 6


def compare_answers(one: Answer, other: Answer) -> dict[str, Any]:
    """Compares two answers of the same kind, prediction by prediction.

    The difference of two predictions is the total variation of their probabilities,
    half of the sum of the absolute differences, from 0 to 1. Of labels, which have
    independent probabilities, and of a number it is the largest absolute difference.

    Args:
        one: The first model's answer.
        other: The second model's answer, of the same kind.

    Returns:
        A JSON object; see `comparison_schemas.ANSWERS`. Predictions with the largest
        difference come first.

    Example:
    >>> labels = Outcomes(("-", "+"), ("-", "+"))
    >>> answers = [
    ...     Answer("classes", labels, [Prediction(0, "", np.array(shares))])
    ...     for shares in ([0.25, 0.75], [0.5, 0.5])
    ... ]
    >>> [found] = compare_answers(*answers)["predictions"]
    >>> found["difference"], found["outcomes"][0]
    (0.25, {'name': '+', 'a': 0.75, 'b': 0.5})
    """
    same_tokens = one.outcomes == other.outcomes and one.row == other.row
    union = _Union(one.outcomes, other.outcomes, is_whole=one.kind != "spans")
    found = [
        _compare(pair, union, one.kind) for pair in _pairs(one, other, same_tokens)
    ]
    found.sort(key=lambda prediction: -prediction["difference"])
    written = None
    if one.written is not None and other.written is not None:
        written = {"a": one.written, "b": other.written}
    return {
        "kind": one.kind,
        "same_tokens": same_tokens,
        "predictions": found,
        "left_out": max(one.left_out, other.left_out),
        "written": written,
    }


class _Union:
    """The outcomes of both models, of which each may lack some.

    Args:
        one: Those of the first model.
        other: Those of the second model.
        is_whole: Whether an outcome that a model lacks is one that it cannot predict;
            otherwise it is too improbable to be listed.
    """

    def __init__(self, one: Outcomes, other: Outcomes, *, is_whole: bool):
        shown = dict(zip(one.names, one.shown, strict=True))
        shown |= dict(zip(other.names, other.shown, strict=True))
        self.shown = list(shown.values())
        places = {name: place for place, name in enumerate(shown)}
        self._places = [
            np.array([places[name] for name in side.names]) for side in (one, other)
        ]
        self._absent = np.nan if is_whole else 0.0

    def spread(self, shares: np.ndarray, side: int) -> np.ndarray:
        """Returns the probabilities of all outcomes; NaN where there is none."""
        found = np.full(len(self.shown), self._absent)
        found[self._places[side]] = shares
        return found

    def place(self, index: int | None) -> int | None:
        """Returns the place of an outcome of the first model."""
        return None if index is None else int(self._places[0][index])


def _pairs(
    one: Answer, other: Answer, same_tokens: bool
) -> Sequence[tuple[Prediction, Prediction]]:
    """Returns the predictions that both models make at the same place."""
    if one.kind == "tokens" and not same_tokens:
        # Other tokens have other places, except that both end where the text ends.
        return [(one.predictions[-1], other.predictions[-1])]
    others = {prediction.number: prediction for prediction in other.predictions}
    return [
        (prediction, others[prediction.number])
        for prediction in one.predictions
        if prediction.number in others
    ]


def _compare(
    pair: tuple[Prediction, Prediction], union: _Union, kind: str
) -> dict[str, Any]:
    a, b = (union.spread(one.probabilities, side) for side, one in enumerate(pair))
    differences = np.abs(np.nan_to_num(b) - np.nan_to_num(a))
    difference = differences.max()
    if kind not in ("labels", "number"):
        difference = differences.sum() / 2
    actual = union.place(pair[0].actual)
    listed = _listed(a, b, differences, actual)
    return {
        "number": pair[0].number,
        "text": pair[0].text,
        "difference": round(float(difference), _DIGITS),
        "actual": None if actual is None else listed.index(actual),
        "best": {"a": _best(a, listed), "b": _best(b, listed)},
        "outcomes": [
            {"name": union.shown[i], "a": _rounded(a[i]), "b": _rounded(b[i])}
            for i in listed
        ],
    }


def _listed(
    a: np.ndarray, b: np.ndarray, differences: np.ndarray, actual: int | None
) -> list[int]:
    """Returns the places of the outcomes to show, the largest difference first."""
    if len(a) <= _ALL:
        chosen = set(range(len(a)))
    else:
        tops = (np.nan_to_num(a), np.nan_to_num(b), differences)
        chosen = {int(i) for top in tops for i in _largest(top)}
        if actual is not None:
            chosen.add(actual)
    most = np.fmax(a, b)  # among equal differences the most probable one is first
    return sorted(chosen, key=lambda i: (-differences[i].round(_DIGITS), -most[i]))


def _largest(values: np.ndarray) -> np.ndarray:
    """Returns the places of the largest values, those above 0."""
    places = np.argpartition(-values, _SHOWN)[:_SHOWN]
    return places[values[places] > 0]


def _best(shares: np.ndarray, listed: Sequence[int]) -> int | None:
    """Returns the place in the list of a model's most probable outcome."""
    return listed.index(int(np.nanargmax(shares)))


def _rounded(share: float) -> float | None:
    return None if np.isnan(share) else round(float(share), _DIGITS)
