"""Calibration metrics: expected calibration error and Brier score.

A prediction is calibrated if events that are predicted with a probability of 0.8 occur
in eight of ten cases.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from transbeam.trainer.metrics.counts import mean

# Of the normal distribution: 95% of its values are at most so many standard deviations
# from their mean.
_TWO_SIDED = 1.959964


class ReliabilityBins(NamedTuple):
    """The events of each bin of probabilities; all arrays (..., bins).

    Attributes:
        count: Number of events.
        probability: Sum of their predicted probabilities.
        occurred: Number of those that occurred.
    """

    count: np.ndarray
    probability: np.ndarray
    occurred: np.ndarray

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean predicted probability and observed frequency; NaN for empty bins."""
        return mean(self.probability, self.count), mean(self.occurred, self.count)

    def frequency_intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """95% intervals of the observed frequency ([Wilson, 1927]); NaN if empty.

        [Wilson, 1927]: https://doi.org/10.1080/01621459.1927.10502953

        Example:
        >>> bins = ReliabilityBins(*map(np.array, ([10], [8.0], [8])))
        >>> [end.round(3).tolist() for end in bins.frequency_intervals()]
        [[0.49], [0.943]]
        """
        _, share = self.shares()
        spread = _TWO_SIDED**2 / np.where(self.count, self.count, np.nan)
        middle = (share + spread / 2) / (1 + spread)
        half = np.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
        return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


@dataclass(frozen=True)
class CalibrationError:
    """Expected calibration error (ECE) of predicted probabilities.

    Probabilities are sorted into bins of equal width. The error is the mean over all
    events of the difference between the mean probability and the observed frequency of
    their bin: `sum_b n_b / N |frequency_b - probability_b|`.

    Bin `b` of `B` holds the probabilities in `(b / B, (b + 1) / B]`. So 1 is in the
    last bin, and 0, which is in none of these ranges, is in the first.

    Args:
        bins: Number of bins.

    Attributes:
        distances: The scores that are sums of absolute values; see `intervals`.

    References:
        - [Naeini et al., 2015](https://doi.org/10.1609/aaai.v29i1.9602)
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599), equation 3
    """

    distances: ClassVar[frozenset[str]] = frozenset({"calibration_error"})

    bins: int = 15

    def statistics(
        self,
        probabilities: np.ndarray,
        occurred: np.ndarray,
        units: np.ndarray | None = None,
        count: int | None = None,
    ) -> np.ndarray:
        """Sums per unit and bin; a unit may have any number of events.

        Args:
            probabilities: (M,). The predicted probability of each event.
            occurred: (M,). 1 for an event that occurred, else 0.
            units: int (M,). The unit of each event; None if each unit has one event.
            count: Number of units; None if each unit has one event.

        Returns:
            float64 (n, 3 bins): counts, sums of probabilities, sums of `occurred`.

        Raises:
            ValueError: The shapes differ, or a number is no probability.

        Example:
        >>> metric = CalibrationError(bins=5)
        >>> conf = np.array([0.55, 0.65, 0.85, 0.95, 1.0])
        >>> statistics = metric.statistics(conf, np.array([1, 0, 1, 1, 0]))
        >>> round(metric.scores(statistics.sum(axis=0))["calibration_error"].item(), 4)
        0.38
        """
        p, occurred = (
            np.asarray(of, np.float64).ravel() for of in (probabilities, occurred)
        )
        units = np.arange(len(p)) if units is None else np.asarray(units).ravel()
        if not p.shape == occurred.shape == units.shape:
            raise ValueError(
                f"probabilities {p.shape}, occurred {occurred.shape} and units "
                f"{units.shape} must have one shape"
            )
        if not ((p >= 0) & (p <= 1)).all():
            raise ValueError("probabilities: expected numbers between 0 and 1")
        number = len(p) if count is None else count
        cells = units * self.bins + self.bin_of(p)
        sums = [
            np.bincount(cells, of, number * self.bins).reshape(number, self.bins)
            for of in (None, p, occurred)
        ]
        return np.hstack(sums).astype(np.float64)

    def bin_of(self, probabilities: np.ndarray) -> np.ndarray:
        """The bin of each probability.

        Example:
        >>> CalibrationError(bins=5).bin_of(np.array([0.0, 0.2, 0.21, 1.0]))
        array([0, 0, 1, 4])
        """
        inner = np.arange(1, self.bins) / self.bins
        return np.searchsorted(inner, probabilities, side="left")

    def reliability(self, sums: np.ndarray) -> ReliabilityBins:
        """Splits sums (..., 3 bins) into their three parts."""
        parts = sums.reshape(*sums.shape[:-1], 3, self.bins)
        return ReliabilityBins(*np.moveaxis(parts, -2, 0))

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `calibration_error` from sums (..., 3 bins)."""
        bins = self.reliability(sums)
        off = np.abs(bins.occurred - bins.probability).sum(axis=-1)
        return {"calibration_error": mean(off, bins.count.sum(axis=-1))}


@dataclass(frozen=True)
class BrierScore:
    """Mean squared error of predicted probabilities.

    Of a choice among classes the squared errors of all classes are added, so the worst
    score is 2 ([Brier, 1950]).

    [Brier, 1950]: https://doi.org/10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2
    """

    def statistics(
        self, squared_errors: np.ndarray, predictions: np.ndarray
    ) -> np.ndarray:
        """Two numbers per unit: summed squared errors and number of predictions.

        Args:
            squared_errors: (n,). The sum over the unit's predictions.
            predictions: (n,). Number of the unit's predictions.

        Returns:
            float64 (n, 2).
        """
        return np.stack([squared_errors, predictions], axis=-1).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `brier_score` from sums (..., 2).

        Example:
        >>> metric = BrierScore()
        >>> statistics = metric.statistics(np.array([0.5, 0.08]), np.array([1, 1]))
        >>> round(metric.scores(statistics.sum(axis=0))["brier_score"].item(), 4)
        0.29
        """
        return {"brier_score": mean(sums[..., 0], sums[..., 1])}
