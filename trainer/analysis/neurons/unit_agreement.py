"""Agreement of units: the token that a unit favors, and the one after its trigger."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.model.inspect.neurons import ValueTokens
from transbeam.trainer.analysis.neurons.unit_statistics import LayerUnits
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals


@dataclass(frozen=True)
class Agreement:
    """Shares of units whose favored token follows their strongest trigger.

    Attributes:
        agrees: bool (I,).
        counted: bool (I,). Units whose trigger has a next token.
        share: Share of these that agree, with an interval over them.
        baseline: The share to expect if triggers were those of other units. Both are
            NaN if no unit is counted.
    """

    agrees: np.ndarray
    counted: np.ndarray
    share: Interval
    baseline: float


def measure_agreement(
    layer: LayerUnits, rows: Sequence[np.ndarray], values: ValueTokens, seed: int
) -> Agreement:
    """Compares the tokens that units favor with those that follow their triggers.

    Args:
        layer: The units.
        rows: The token ids of all texts.
        values: The tokens that the units favor.
        seed: Seed of the interval.

    References:
        - Geva et al., 2021, section 4 (agreement rate)
    """
    texts, positions = layer.top.texts[:, 0], layer.top.positions[:, 0]
    lengths = np.array([len(row) for row in rows])
    counted = (texts >= 0) & (positions + 1 < lengths[texts])
    following = np.full(len(texts), -1)
    following[counted] = [
        rows[text][position + 1]
        for text, position in zip(texts[counted], positions[counted], strict=True)
    ]
    favored = values.ids[:, 0]
    if not counted.any():
        nothing = Interval(np.nan, np.nan, np.nan)
        return Agreement(counted, counted, nothing, np.nan)
    agrees = counted & (favored == following)
    statistics = np.stack([agrees[counted], np.ones(counted.sum())], axis=1)
    size = max(favored.max(), following.max()) + 1
    shares = [
        np.bincount(ids[counted], minlength=size) / counted.sum()
        for ids in (favored, following)
    ]
    return Agreement(
        agrees, counted, average_shares(statistics, seed), float(shares[0] @ shares[1])
    )


def average_shares(statistics: np.ndarray, seed: int) -> Interval:
    """Computes a ratio of sums with an interval; NaN if there is nothing to count.

    Args:
        statistics: float (n, 2). Numerators and denominators of the units to resample.
        seed: Seed of the resampling.
    """
    if not statistics[:, 1].sum():
        return Interval(np.nan, np.nan, np.nan)
    found = intervals(
        statistics,
        lambda x: {"share": x[..., 0] / np.where(x[..., 1] > 0, x[..., 1], np.nan)},
        seed,
    )
    return found["share"]
