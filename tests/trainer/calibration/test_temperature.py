"""The fitted temperature, by hand, at the edges, and by another method."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.trainer.calibration.class_logits import ClassLogits
from transbeam.trainer.calibration.temperature import fit_temperature


def logits_of(rows: list[list[float]], targets: list[int]) -> ClassLogits:
    count = len(targets)
    return ClassLogits(
        np.array(rows, np.float32) if rows else np.zeros((0, 2), np.float32),
        np.array(targets, np.int64),
        np.arange(count),
        count,
    )


def drawn(seed: int, choices: int = 60, classes: int = 3) -> ClassLogits:
    """Targets are drawn from the probabilities of the logits at a temperature."""
    rng = np.random.default_rng(seed)
    right = rng.normal(0, 1.5, (choices, classes))
    odds = np.exp(right)
    below = np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)
    targets = (below < rng.random((choices, 1))).sum(axis=1)
    return logits_of((right * rng.uniform(0.3, 4)).tolist(), targets.tolist())


def plain_nats(logits: ClassLogits, temperature: float) -> float:
    total = 0.0
    for row, target in zip(
        logits.logits.tolist(), logits.targets.tolist(), strict=True
    ):
        scaled = [logit / temperature for logit in row]
        total += math.log(sum(math.exp(x) for x in scaled)) - scaled[target]
    return total / len(logits.targets)


def golden_section(logits: ClassLogits) -> float:
    """Minimizes over the logarithm of the temperature, by comparisons alone."""
    low, high = math.log(0.01), math.log(100.0)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if plain_nats(logits, math.exp(a)) < plain_nats(logits, math.exp(b)):
            high = b
        else:
            low = a
    return math.exp((low + high) / 2)


def test_by_hand() -> None:
    # The probability of the preferred class has to be 2/3: a margin of ln 2.
    fit = fit_temperature(logits_of([[2, 0], [0, 2], [2, 0]], [0, 1, 1]))
    assert fit.temperature == pytest.approx(2 / math.log(2), abs=1e-9)
    assert fit.nats_before == pytest.approx(0.7936, abs=5e-5)
    assert fit.nats_after == pytest.approx(0.6365, abs=5e-5)
    assert fit.reason is None


@given(st.integers(0, 10_000))
def test_nats_never_rise_and_are_the_least(seed: int) -> None:
    logits = drawn(seed, choices=12)
    fit = fit_temperature(logits)
    assert fit.nats_after <= fit.nats_before
    assert (fit.temperature == 1) == (fit.reason is not None)
    if fit.reason is None:
        for factor in (0.9, 1.1):
            assert logits.nats(factor * fit.temperature) > fit.nats_after


@pytest.mark.parametrize("seed", range(3))
def test_as_another_method_finds_it(seed: int) -> None:
    logits = drawn(seed)
    fit = fit_temperature(logits)
    assert fit.temperature == pytest.approx(golden_section(logits), rel=1e-5)
    assert fit.nats_after == pytest.approx(plain_nats(logits, fit.temperature))


@pytest.mark.parametrize("scale", [1e-5, 1e4])
def test_logits_of_another_scale_have_another_temperature_alone(scale: float) -> None:
    logits = drawn(4)
    scaled = logits_of((logits.logits * scale).tolist(), logits.targets.tolist())
    fit, of_scaled = fit_temperature(logits), fit_temperature(scaled)
    assert of_scaled.temperature == pytest.approx(scale * fit.temperature, rel=1e-5)
    assert of_scaled.nats_after == pytest.approx(fit.nats_after, rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "targets", "reason"),
    [
        ([[3, 0], [0, 5]], [0, 1], "all predictions are right"),
        ([[3, 3], [0, 5]], [0, 1], "all predictions are right"),  # a tie is no error
        ([[3, 0], [0, 5]], [1, 0], "no higher scores"),
        ([[2, 0], [2, 0]], [0, 1], "no higher scores"),  # half of them
        ([[1, 1, 1], [7, 7, 7]], [0, 2], "equal scores"),
        ([], [], "equal scores"),
    ],
)
def test_where_no_temperature_is_the_best_it_stays_1(rows, targets, reason) -> None:
    fit = fit_temperature(logits_of(rows, targets))
    assert fit.temperature == 1
    assert fit.nats_after == fit.nats_before or not targets
    assert reason in str(fit.reason)


def test_wrong_by_a_second_place_is_still_a_temperature() -> None:
    """All predictions are wrong, and the right class is the better of the others."""
    fit = fit_temperature(logits_of([[4, 3, 0], [3, 4, 0]], [1, 0]))
    assert fit.reason is None
    # d/db: E[z] = 3, of odds e^4b, e^3b, 1.
    odds = np.exp(np.array([4, 3, 0]) / fit.temperature)
    assert (odds * [4, 3, 0]).sum() / odds.sum() == pytest.approx(3)


def test_a_calibrated_model_keeps_its_probabilities() -> None:
    logits = drawn(7)
    once = fit_temperature(logits)
    again = logits_of(
        (logits.logits / once.temperature).tolist(), logits.targets.tolist()
    )
    assert fit_temperature(again).temperature == pytest.approx(1, abs=1e-5)
