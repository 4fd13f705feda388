"""Bootstrap confidence intervals of a system's scores and of score differences.

The evaluated units are a sample of all possible ones. Drawing resamples of the same
size with replacement shows how much a score depends on the sample ([Efron,
1979](https://doi.org/10.1214/aos/1176344552); for BLEU [Koehn,
2004](https://aclanthology.org/W04-3250)). As statistics are additive, the statistics of
a resample are the sum of the units' statistics, weighted by how often each unit was
drawn; so statistics are computed only once per unit. The variance between training runs
is not included: measuring it takes several seeds.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np

from transbeam.configs.base.errors import DataError

Scores = Callable[[np.ndarray], dict[str, np.ndarray]]

# Units drawn at once: 32 MB for their numbers, as much again for counts of them.
_MOST_DRAWN = 1 << 22


class Interval(NamedTuple):
    """A score with its confidence interval.

    Attributes:
        score: The score over all units.
        low: The lower end of the interval.
        high: The upper end.
    """

    score: float
    low: float
    high: float


def intervals(
    statistics: np.ndarray,
    scores: Scores,
    seed: int,
    resamples: int = 1000,
    confidence: float = 0.95,
    distances: Collection[str] = (),
) -> dict[str, Interval]:
    """Computes percentile intervals of every score of a metric.

    Args:
        statistics: (n, k). A metric's statistics of `n` units.
        scores: The metric's function from sums (..., k) to scores (...) by name.
        seed: The same seed and statistics give the same intervals.
        resamples: Number of resamples of `n` units.
        confidence: The share of the resamples' scores inside the interval. Resamples
            without a finite score, such as a mean of no tokens, are left out.
        distances: Names of scores that are distances: sums of absolute values of
            differences. Chance increases a distance, in a resample more than in the
            sample, so the percentiles of resamples are too large. The interval of a
            distance is reflected at the score, which subtracts this increase
            ([Davison and Hinkley, 1997](https://doi.org/10.1017/CBO9780511802843),
            section 5.2: the basic bootstrap interval).

    Returns:
        An interval for each score; its ends are NaN if the score is not finite.

    Raises:
        DataError: There are no units.

    Example:
    >>> from transbeam.trainer.metrics.language_modeling import TokenAccuracy
    >>> metric = TokenAccuracy()
    >>> statistics = metric.statistics(np.arange(100) % 4 > 0, np.ones(100, int))
    >>> intervals(statistics, metric.scores, seed=1)
    {'accuracy': Interval(score=0.75, low=0.66, high=0.83)}
    """
    statistics = np.asarray(statistics, np.float64)
    draws = _draws(len(statistics), seed, resamples)
    whole = scores(statistics.sum(axis=0))
    drawn = scores(np.concatenate([counts @ statistics for counts in draws]))
    found = {
        name: _interval(score.item(), drawn[name], confidence)
        for name, score in whole.items()
    }
    return {
        name: _reflected(interval) if name in distances else interval
        for name, interval in found.items()
    }


def intervals_of_draws(
    units: int,
    scores: Scores,
    seed: int,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> dict[str, Interval]:
    """Computes intervals of scores whose statistics are not additive.

    Args:
        units: Number of units, `n`.
        scores: Function from the number of times that each unit was drawn, float64 (r,
            n), to scores (r,) by name.
        seed: As in `intervals`.
        resamples: As in `intervals`.
        confidence: As in `intervals`.

    Raises:
        DataError: There are no units.

    Example:
    >>> values = np.arange(100) % 4 > 0
    >>> share = lambda counts: {"share": counts @ values / counts.sum(axis=1)}
    >>> intervals_of_draws(100, share, seed=1)
    {'share': Interval(score=0.75, low=0.66, high=0.83)}
    """
    drawn = [scores(counts) for counts in _draws(units, seed, resamples)]
    whole = scores(np.ones((1, units)))
    return {
        name: _interval(
            score.item(), np.concatenate([part[name] for part in drawn]), confidence
        )
        for name, score in whole.items()
    }


def differences(
    statistics: np.ndarray,
    others: np.ndarray,
    scores: Scores,
    seed: int,
    resamples: int = 1000,
    confidence: float = 0.95,
) -> dict[str, Interval]:
    """Computes intervals of the score difference of two systems on the same units.

    This is the paired bootstrap: both systems are scored on the same resamples, so
    units that are hard for both systems do not widen the interval. If 0 is outside the
    interval, the difference is significant.

    Args:
        statistics: (n, k). The first system's statistics.
        others: (n, k). The second system's statistics, of the same units in the same
            order.
        scores: As in `intervals`.
        seed: As in `intervals`.
        resamples: As in `intervals`.
        confidence: As in `intervals`.

    Returns:
        An interval of the difference for each score.

    Raises:
        DataError: There are no units.
        ValueError: The shapes of the statistics differ.

    Example:
    >>> from transbeam.trainer.metrics.language_modeling import TokenAccuracy
    >>> metric, targets = TokenAccuracy(), np.ones(100, int)
    >>> ours = metric.statistics(np.arange(100) % 10 > 0, targets)
    >>> theirs = metric.statistics(np.arange(100) % 5 > 0, targets)
    >>> better = differences(ours, theirs, metric.scores, seed=1)["accuracy"]
    >>> [round(number, 2) for number in better]
    [0.1, 0.05, 0.16]
    """
    if np.shape(statistics) != np.shape(others):
        raise ValueError(
            f"statistics {np.shape(statistics)} and {np.shape(others)} must be of the "
            "same units and metric"
        )
    middle = np.shape(statistics)[1]

    def difference(sums: np.ndarray) -> dict[str, np.ndarray]:
        ours, theirs = scores(sums[..., :middle]), scores(sums[..., middle:])
        return {name: ours[name] - theirs[name] for name in ours}

    both = np.hstack([statistics, others])
    return intervals(both, difference, seed, resamples, confidence)


def _draws(units: int, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """Yields how often each unit is drawn: float64 (resamples, units), in blocks."""
    if not units:
        raise DataError(
            "evaluation: found nothing to score, expected at least one record. Look at "
            "the counts of the split in the manifest"
        )
    rng = np.random.default_rng(seed)
    at_once = max(1, _MOST_DRAWN // units)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        # How often each unit is drawn is multinomial; counting draws takes less time
        # than the generator's own `multinomial`.
        drawn = rng.integers(0, units, (rows, units))
        drawn += units * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * units)
        yield counts.reshape(rows, units).astype(np.float64)


def _interval(score: float, drawn: np.ndarray, confidence: float) -> Interval:
    drawn = drawn[np.isfinite(drawn)]
    if not np.isfinite(score) or not len(drawn):
        return Interval(score, np.nan, np.nan)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]).tolist()
    return Interval(score, low, high)


def _reflected(of: Interval) -> Interval:
    """Reflects the interval of a distance at the score, which it always contains."""
    low, high = 2 * of.score - of.high, 2 * of.score - of.low
    return Interval(of.score, min(max(low, 0.0), of.score), max(high, of.score))
