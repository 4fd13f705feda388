"""Temperature scaling: one number that divides all logits, fitted on held-out data.

Training minimizes the loss of the training records, so a trained classifier is often
too confident on others. Dividing its logits by a temperature T changes its confidence
and no predicted class ([Guo et al., 2017](https://arxiv.org/abs/1706.04599), 4.2).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.calibration.class_logits import ClassLogits

# Temperatures relative to the spread of the logits. At the upper bound all classes are
# equally probable for every practical purpose, at the lower one only one is possible.
_LEAST, _MOST = 1e-3, 1e3
_STEPS = 200  # about 7 are taken; bisection alone would need 60
_CLOSE = 1e-12


@dataclass(frozen=True)
class TemperatureFit:
    """A fitted temperature.

    Attributes:
        temperature: The temperature; 1 if none was kept.
        nats_before: Mean negative log-likelihood of the right classes at 1.
        nats_after: The same at the temperature; at most `nats_before`.
        reason: The reason why no temperature was kept; None if one was.
    """

    temperature: float
    nats_before: float
    nats_after: float
    reason: str | None = None


def fit_temperature(logits: ClassLogits) -> TemperatureFit:
    """Fits the temperature that minimizes the negative log-likelihood.

    The negative log-likelihood is convex in 1/T, so its minimum is where its derivative
    is 0: where the expected logit under the predicted probabilities equals the logit of
    the right class, on average. Newton's method finds it within a bracket that is
    halved whenever a step would leave it.

    There is no finite minimum if every right class has the highest logit, or if the
    logits of the right classes are no higher than others on average. Then the
    temperature is not determined, and stays 1.

    Args:
        logits: The logits of held-out predictions.

    Example:
    >>> margin = np.array([[2.0, 0.0]] * 3, np.float32)  # two of three are right
    >>> fit = fit_temperature(ClassLogits(margin, np.array([0, 0, 1]), np.arange(3), 3))
    >>> round(fit.temperature, 4), round(fit.nats_before, 4), round(fit.nats_after, 4)
    (2.8854, 0.7936, 0.6365)
    """
    before = logits.nats()

    def none(reason: str) -> TemperatureFit:
        return TemperatureFit(1.0, before, before, reason)

    spread = _mean_spread(logits)
    if not spread > 0:
        return none("all classes have equal scores")

    def derivatives(inverse: float) -> tuple[float, float]:
        return _derivatives(logits, inverse)

    low, high = 1 / (_MOST * spread), 1 / (_LEAST * spread)
    if derivatives(low)[0] >= 0:
        return none("right classes have no higher scores than others on average")
    if derivatives(high)[0] <= 0:
        return none("all predictions are right, which suits any low temperature")
    temperature = 1 / _find_root(derivatives, low, high)
    after = logits.nats(temperature)
    if not after < before:
        return none("no temperature reduces the negative log-likelihood")
    return TemperatureFit(temperature, before, after)


def _mean_spread(logits: ClassLogits) -> float:
    """Mean difference of the highest logit and the mean logit; NaN without choices."""
    total = sum(-float(rows.mean(axis=1).sum()) for _, rows, _ in logits.blocks())
    return total / len(logits.targets) if len(logits.targets) else math.nan


def _derivatives(logits: ClassLogits, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean nats with respect to 1/T."""
    first = second = 0.0
    for _, rows, targets in logits.blocks():
        odds = np.exp(inverse * rows)
        shares = odds / odds.sum(axis=1, keepdims=True)
        expected = (shares * rows).sum(axis=1)
        right = rows[np.arange(len(targets)), targets]
        first += float((expected - right).sum())
        second += float(((shares * rows**2).sum(axis=1) - expected**2).sum())
    return first / len(logits.targets), second / len(logits.targets)


def _find_root(
    derivatives: Callable[[float], tuple[float, float]], low: float, high: float
) -> float:
    """Finds the root of an increasing function between two positive numbers."""
    x = min(max(1.0, low), high)
    for _ in range(_STEPS):
        value, slope = derivatives(x)
        if value == 0:
            return x
        low, high = (x, high) if value < 0 else (low, x)
        step = x - value / slope if slope > 0 else math.nan
        # The middle of the exponents, as the bracket spans orders of magnitude.
        new = step if low < step < high else math.sqrt(low * high)
        if abs(new - x) <= _CLOSE * x:
            return new
        x = new
    return x
