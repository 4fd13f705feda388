"""Decision thresholds that maximize F1 on held-out predictions."""

import numpy as np

from transbeam.trainer.metrics.counts import ratio

# Scores are sums, which rounding may make different.
_EQUAL = 1e-9
# The distance of a threshold that all or no questions reach, in sums of two logits, is
# half of this.
_BEYOND = 1.0


def choose_threshold(
    values: np.ndarray, scores: np.ndarray, default: float, ends: tuple[float, float]
) -> float:
    """Chooses the threshold with the best score; items at or above it are selected.

    A threshold lies halfway between the values that it separates, so that rounding
    changes no decision. Of equally good thresholds the nearest to the default is
    chosen, and the default itself if it is one of them.

    Args:
        values: (n,). The value of each item.
        scores: (n + 1,). The score if the k items with the highest values are selected.
        default: The default threshold.
        ends: Numbers below all values and above all values, or equal to them.

    Example:
    >>> choose_threshold(
    ...     np.array([0.9, 0.2, 0.4]), np.array([0.0, 0.5, 0.8, 0.8]), 0.5, (0.0, 1.0)
    ... )
    0.30000000000000004
    """
    ordered = np.sort(values)[::-1]
    upper = np.concatenate([[ends[1]], ordered])
    lower = np.concatenate([ordered, [ends[0]]])
    # Items of equal value are selected together or not at all.
    possible = upper > lower
    best = scores[possible].max(initial=-np.inf) - _EQUAL
    if scores[(values >= default).sum()] >= best:
        return default
    candidates = ((upper + lower) / 2)[possible & (scores >= best)]
    return float(candidates[np.argmin(np.abs(candidates - default))])


def fit_label_thresholds(
    probabilities: np.ndarray, targets: np.ndarray, default: float
) -> np.ndarray:
    """Chooses for each label the threshold that maximizes its F1.

    A label that applies to no text keeps the default.

    Args:
        probabilities: (n, C). The probability of each label.
        targets: (n, C). 1 for each label that applies.
        default: The default threshold.

    Returns:
        float64 (C,).

    Example:
    >>> probabilities = np.array([[0.4, 0.6], [0.3, 0.7], [0.1, 0.8]])
    >>> fit_label_thresholds(probabilities, np.array([[1, 0], [1, 0], [0, 0]]), 0.5)
    array([0.2, 0.5])
    """
    return np.array(
        [
            choose_threshold(p, _f1_by_number(p, applies), default, (0.0, 1.0))
            for p, applies in zip(probabilities.T, targets.T, strict=True)
        ],
        np.float64,
    )


def _f1_by_number(probabilities: np.ndarray, applies: np.ndarray) -> np.ndarray:
    """F1 if the label is assigned to the k most probable texts, k from 0: (n + 1,)."""
    order = np.argsort(-probabilities, kind="stable")
    right = np.concatenate([[0], np.cumsum(applies[order])])
    number = np.arange(len(right))
    return ratio(2.0 * right, number + applies.sum())


def fit_no_answer_threshold(
    differences: np.ndarray, of_answers: np.ndarray, of_none: np.ndarray
) -> float:
    """Chooses the no-answer threshold with the best mean score.

    A question is predicted to have no answer if its difference exceeds the threshold.
    This is the threshold that SQuAD 2.0's script calls `best_f1_thresh`, if the scores
    are F1, except that questions with equal differences are never separated.

    Args:
        differences: (n,). The score of no answer minus that of the best answer.
        of_answers: (n,). The score of the best answer to each question.
        of_none: (n,). The score of predicting no answer.

    References:
        - [Rajpurkar et al., 2018](https://arxiv.org/abs/1806.03822), section 5

    Example:
    >>> fit_no_answer_threshold(
    ...     np.array([-3.0, -2.0, -1.0]), np.array([1.0, 0, 0]), np.array([0, 1.0, 1])
    ... )
    -2.5
    """
    values = -differences
    order = np.argsort(-values, kind="stable")
    gains = (of_answers - of_none)[order]
    scores = of_none.sum() + np.concatenate([[0.0], np.cumsum(gains)])
    ends = values.min() - _BEYOND, values.max() + _BEYOND
    return 0.0 - choose_threshold(values, scores, 0.0, ends)
