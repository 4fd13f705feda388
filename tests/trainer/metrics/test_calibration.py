"""Calibration error by hand, by plain loops, and its interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.metrics.calibration import (
    BrierScore,
    CalibrationError,
    ReliabilityBins,
)
from transbeam.trainer.metrics.confidence_intervals import intervals

EVENTS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def error_of(probabilities, occurred, bins: int = 15) -> float:
    metric = CalibrationError(bins)
    sums = metric.statistics(np.array(probabilities), np.array(occurred)).sum(axis=0)
    return metric.scores(sums)["calibration_error"].item()


def plain_error(events: list[tuple[float, bool]], bins: int) -> float:
    """The definition, bin by bin and event by event."""
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        there = [
            (p, occurred)
            for p, occurred in events
            if low < p <= high or (p == 0 and number == 0)
        ]
        if there:
            confidence = sum(p for p, _ in there) / len(there)
            accuracy = sum(occurred for _, occurred in there) / len(there)
            total += len(there) / len(events) * abs(accuracy - confidence)
    return total


def test_by_hand() -> None:
    # A confidence of 1 belongs to the last bin: without it the error is 0.26, and in a
    # bin of its own 0.46 (torchmetrics#3510).
    assert error_of([0.55, 0.65, 0.85, 0.95, 1.0], [1, 0, 1, 1, 0], 5) == pytest.approx(
        0.38
    )


@pytest.mark.parametrize(
    ("probability", "number"),
    [(0.0, 0), (1e-300, 0), (1 / 15, 0), (0.0667, 1), (0.2, 2), (14 / 15, 13), (1, 14)],
)
def test_the_upper_end_belongs_to_a_bin(probability: float, number: int) -> None:
    assert CalibrationError().bin_of(np.array([probability])) == [number]


@given(EVENTS, st.integers(1, 20))
def test_as_plain_loops_have_it(events, bins: int) -> None:
    found = error_of(*zip(*events, strict=True), bins)
    assert found == pytest.approx(plain_error(events, bins), abs=1e-12)
    assert 0 <= found <= 1


@given(EVENTS, st.randoms(use_true_random=False))
def test_the_order_of_events_changes_nothing(events, random) -> None:
    found = error_of(*zip(*events, strict=True))
    random.shuffle(events)
    assert error_of(*zip(*events, strict=True)) == pytest.approx(found, abs=1e-12)


def test_units_with_several_events_and_with_none() -> None:
    metric = CalibrationError(bins=2)
    statistics = metric.statistics(
        np.array([0.1, 0.4, 0.9]), np.array([0, 1, 1]), np.array([0, 0, 2]), 3
    )
    assert statistics.tolist() == [
        [2, 0, 0.5, 0, 1, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 1, 0, 0.9, 0, 1],
    ]


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        error_of([0.5, probability], [1, 0])
    with pytest.raises(ValueError, match="one shape"):
        error_of([0.5, 0.6], [1])


def test_wilson_intervals_by_hand() -> None:
    # z² = 3.8415. Of 2 in 4: 0.5 ± z sqrt(1/16 + z²/64) / (1 + z²/4). Of 3 in 3: from
    # 3 / (3 + z²) to 1.
    bins = ReliabilityBins(*map(np.array, ([4, 0, 3], [2.0, 0.0, 2.9], [2, 0, 3])))
    low, high = bins.frequency_intervals()
    assert low.round(4)[[0, 2]].tolist() == [0.15, 0.4385]
    assert high.round(4)[[0, 2]].tolist() == [0.85, 1.0]
    assert np.isnan([low[1], high[1], *bins.shares()[0][1:2]]).all()


def test_chance_alone_does_not_exclude_that_probabilities_are_calibrated() -> None:
    """In resamples chance adds to the error once more: all percentiles are too high."""
    rng = np.random.default_rng(0)
    probabilities = rng.uniform(0.5, 1.0, 400)
    occurred = rng.random(400) < probabilities
    metric = CalibrationError()
    statistics = metric.statistics(probabilities, occurred)

    def interval(**options):
        return intervals(statistics, metric.scores, 0, **options)["calibration_error"]

    assert interval().low > 0.01
    found = interval(distances=CalibrationError.distances)
    assert found.low == 0
    assert found.low <= found.score <= found.high
    # Where the error is large, both agree nearly.
    statistics = metric.statistics(probabilities, occurred & (rng.random(400) < 0.5))
    plain, reflected = interval(), interval(distances=CalibrationError.distances)
    assert reflected == pytest.approx(plain, abs=0.02)
    assert plain.score == reflected.score > 0.3


def test_brier_score_by_hand() -> None:
    metric = BrierScore()
    # Of probabilities (0.8, 0.2) for the first class; (0.3, 0.7) for the first.
    statistics = metric.statistics(np.array([0.08, 0.98, 0.0]), np.array([1, 1, 0]))
    assert metric.scores(statistics.sum(axis=0))["brier_score"] == pytest.approx(0.53)
