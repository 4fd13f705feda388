"""Regression metrics: errors, R², Pearson's and Spearman's correlation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean, ratio

# The relative precision of float32 is about 10^-7; numbers that vary by less than ten
# times that, all squared, are treated as constant.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True)
class RegressionScores:
    """Mean squared and absolute error, R², and Pearson's correlation."""

    def statistics(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """1, p, t, p², t², pt, (p-t)² and |p-t| of each prediction p and target t.

        Args:
            predictions: (n,).
            targets: (n,).

        Returns:
            float64 (n, 8).

        Raises:
            ValueError: The shapes differ.
        """
        p, t = _as_pairs(predictions, targets).T
        error = p - t
        columns = (np.ones_like(p), p, t, p * p, t * t, p * t, error**2, np.abs(error))
        return np.stack(columns, axis=-1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `mse`, `mae`, `r_squared`, `pearson_correlation` from sums (..., 8).

        R² is the share of the targets' variance that is explained: 0 for a constant
        prediction of their mean, below 0 for worse ones; NaN if all targets are equal.
        The correlation is 0 if all targets or all predictions are equal.

        Example:
        >>> metric = RegressionScores()
        >>> statistics = metric.statistics([1.0, 2.0, 6.0], [1.0, 3.0, 5.0])
        >>> scores = metric.scores(statistics.sum(axis=0))
        >>> {name: round(score.item(), 4) for name, score in scores.items()}
        {'mse': 0.6667, 'mae': 0.6667, 'r_squared': 0.75, 'pearson_correlation': 0.9449}
        """
        count, p, t, pp, tt, pt, squares, distances = np.moveaxis(sums, -1, 0)
        # All three are scaled by the square of the count.
        of_predictions = _variance(count, p, pp)
        of_targets = _variance(count, t, tt)
        together = count * pt - p * t
        with np.errstate(invalid="ignore", over="ignore"):  # a model that diverged
            return {
                "mse": mean(squares, count),
                "mae": mean(distances, count),
                "r_squared": 1.0 - mean(count * squares, of_targets),
                "pearson_correlation": ratio(
                    together, np.sqrt(of_predictions) * np.sqrt(of_targets)
                ),
            }


def _variance(count: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Variance times the squared count; values within rounding error of 0 become 0."""
    found = count * squares - sums**2
    return np.where(found <= _LEAST_VARIANCE * count * squares, 0.0, found)


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation: Pearson's correlation of ranks, with mean ranks for ties.

    A rank depends on all units, so statistics are not additive. Scores are computed
    from the predictions and targets of all units, and from the number of times that
    each unit is drawn in a resample.
    """

    def statistics(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Prediction and target of each unit, float64 (n, 2)."""
        return _as_pairs(predictions, targets)

    def scores_of_draws(
        self, statistics: np.ndarray
    ) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
        """Builds the function from unit counts (r, n) to `spearman_correlation` (r,).

        The correlation is 0 if all predictions or all targets have the same rank.

        Example:
        >>> metric = RankCorrelation()
        >>> units = metric.statistics([1.0, 2.0, 3.0, 9.0], [10.0, 30.0, 20.0, 20.0])
        >>> scores = metric.scores_of_draws(units)(np.array([[1, 1, 1, 1]]))
        >>> scores["spearman_correlation"].round(4)
        array([0.3162])
        """
        ranks_of = [_ranks(column) for column in statistics.T]

        def scores(counts: np.ndarray) -> dict[str, np.ndarray]:
            middle = (counts.sum(axis=1, keepdims=True) + 1) / 2
            a, b = (ranks(counts) - middle for ranks in ranks_of)
            a2, b2, ab = ((counts * x).sum(axis=1) for x in (a * a, b * b, a * b))
            return {"spearman_correlation": ratio(ab, np.sqrt(a2 * b2))}

        return scores


def _ranks(values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Builds the function from draw counts (r, n) to the values' mean ranks (r, n)."""
    order = np.argsort(values, kind="stable")
    _, first, group = np.unique(values[order], return_index=True, return_inverse=True)
    place = np.empty(len(values), np.int64)
    place[order] = group

    def ranks(counts: np.ndarray) -> np.ndarray:
        drawn = np.add.reduceat(counts[:, order], first, axis=1)
        return (np.cumsum(drawn, axis=1) - (drawn - 1) / 2)[:, place]

    return ranks


def _as_pairs(predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    if predictions.shape != targets.shape or predictions.ndim != 1:
        raise ValueError(
            f"predictions {predictions.shape} and targets {targets.shape} must have "
            "one shape (n,)"
        )
    return np.stack([predictions, targets], axis=-1).astype(np.float64)
