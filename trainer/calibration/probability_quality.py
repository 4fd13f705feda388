"""Quality of predicted probabilities: calibration error, Brier score, reliability."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.metrics.calibration import (
    BrierScore,
    CalibrationError,
    ReliabilityBins,
)
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals


@dataclass(frozen=True)
class ProbabilityQuality:
    """Measures of predicted probabilities on a split.

    Attributes:
        nats: Mean negative log-likelihood of the right classes.
        scores: `calibration_error` and `brier_score`, with confidence intervals.
        bins: The reliability of the probabilities.
    """

    nats: float
    scores: Mapping[str, Interval]
    bins: ReliabilityBins

    def rows(self) -> list[dict[str, Any]]:
        """The bins as JSON, with None for the means of empty ones."""
        shares = (*self.bins.shares(), *self.bins.frequency_intervals())
        names = ("probability", "frequency", "frequency_low", "frequency_high")
        columns = [
            [None if math.isnan(share) else share for share in of.tolist()]
            for of in shares
        ]
        counts = self.bins.count.astype(int).tolist()
        return [
            {"count": count, **dict(zip(names, row, strict=True))}
            for count, *row in zip(counts, *columns, strict=True)
        ]


def measure_probabilities(
    logits: ClassLogits, seed: int, temperature: float = 1.0
) -> ProbabilityQuality:
    """Measures the probabilities of predictions, at a temperature.

    Args:
        logits: The logits of the split's predictions.
        seed: Seed of the bootstrap.
        temperature: The number by which logits are divided.
    """
    events = logits.assess(temperature)
    calibration, brier = CalibrationError(), BrierScore()
    binned = calibration.statistics(
        events.probabilities, events.occurred, events.units, events.count
    )
    squared = brier.statistics(
        np.bincount(events.units, events.squared_errors, events.count),
        np.bincount(events.units, minlength=events.count),
    )
    scores = {
        **intervals(
            binned, calibration.scores, seed, distances=CalibrationError.distances
        ),
        **intervals(squared, brier.scores, seed),
    }
    bins = calibration.reliability(binned.sum(axis=0))
    return ProbabilityQuality(logits.nats(temperature), scores, bins)
