"""Area under the ROC curve, with DeLong's confidence interval."""

from typing import NamedTuple

import numpy as np

_NORMAL_975 = 1.959964  # quantile of the normal distribution


class RocArea(NamedTuple):
    """Areas under ROC curves with intervals of 95%: float64 (K,).

    Attributes:
        area: The probability that a positive example has a higher score than a negative
            one, where an equal score counts half.
        low: The lower end of the interval.
        high: The upper end.
    """

    area: np.ndarray
    low: np.ndarray
    high: np.ndarray


def roc_area(scores: np.ndarray, is_positive: np.ndarray) -> RocArea:
    """Computes the area under the ROC curve of several scores.

    The variance is that of DeLong et al., from how many examples of the other class
    each example exceeds; the interval is normal, clipped to 0 to 1.

    Args:
        scores: float (N, K). `K` scores of each example.
        is_positive: bool (N,). At least two examples of each class.

    Raises:
        ValueError: A class has fewer than two examples, or a score is NaN.

    Example:
    >>> scores = np.array([[0.1], [0.4], [0.35], [0.8]])
    >>> found = roc_area(scores, np.array([False, False, True, True]))
    >>> found.area, found.low.round(2), found.high
    (array([0.75]), array([0.06]), array([1.]))

    References:
        - [DeLong et al., 1988](https://doi.org/10.2307/2531595)
        - [Sun & Xu, 2014](https://doi.org/10.1109/LSP.2014.2337313) (by ranks)
    """
    positive, negative = scores[is_positive], scores[~is_positive]
    m, n = len(positive), len(negative)
    if min(m, n) < 2:
        raise ValueError(f"{m} positive and {n} negative examples, 2 of each expected")
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    together = _ranks(np.concatenate([positive, negative]))
    # Share of the other class that an example exceeds, or is exceeded by.
    above = (together[:m] - _ranks(positive)) / n
    below = 1 - (together[m:] - _ranks(negative)) / m
    area = above.mean(axis=0)
    variance = above.var(axis=0, ddof=1) / m + below.var(axis=0, ddof=1) / n
    margin = _NORMAL_975 * np.sqrt(variance)
    return RocArea(area, np.maximum(area - margin, 0), np.minimum(area + margin, 1))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Returns ranks from 1 within each column; equal values share their mean rank.

    Example:
    >>> _ranks(np.array([[5.0], [3.0], [5.0]])).ravel()
    array([2.5, 1. , 2.5])
    """
    ranks = np.empty(values.shape)
    for column, out in zip(values.T, ranks.T, strict=True):
        _, index, counts = np.unique(column, return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        out[:] = (last - (counts - 1) / 2)[index]
    return ranks
