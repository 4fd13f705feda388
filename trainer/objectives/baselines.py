"""Input-free baselines of a loss: an entropy, or the targets' variance."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Baseline(NamedTuple):
    """The loss of the best constant prediction, as a baseline.

    Attributes:
        unit: Unit of the model's loss and of the baseline.
        name: Name of the baseline.
        loss: Loss of the baseline.
    """

    unit: str
    name: str
    loss: float


def read_baseline(evaluation: Mapping[str, Any]) -> Baseline:
    """Reads the loss of an input-free baseline from the result of an evaluation.

    Args:
        evaluation: The result of `Evaluation.as_json`.

    Example:
    >>> read_baseline({"loss": 0.5, "variance": 2.0})
    Baseline(unit='squared error per target', name='variance', loss=2.0)
    """
    if "variance" in evaluation:
        least = evaluation["variance"]
        return Baseline("squared error per target", "variance", least)
    if "uniform_entropy" in evaluation:
        least = evaluation["uniform_entropy"]
        return Baseline("nats per pair", "uniform entropy", least)
    least = evaluation["unigram_entropy"]
    return Baseline("nats per target", "unigram entropy", least)


def number_sums(
    targets: str, weights: str | None, batch: Mapping[str, np.ndarray]
) -> np.ndarray:
    """float64 (3,): the number of targets, their sum, the sum of their squares.

    Args:
        targets: Name of the feature with the targets.
        weights: Name of the feature with the weights of the targets, or None.
        batch: Features by name.

    Example:
    >>> number_sums("label", None, {"label": np.array([2.0, -3.0])})
    array([ 2., -1., 13.])
    """
    numbers = _real_targets(targets, weights, batch).astype(np.float64)
    return np.array([np.sum(numbers**power) for power in range(3)])


def variance(sums: np.ndarray) -> float:
    """Variance from the sums of `number_sums`.

    Example:
    >>> variance(np.array([2.0, -1.0, 13.0]))
    6.25
    """
    count = max(sums[0], 1.0)
    return max(float(sums[2] / count - (sums[1] / count) ** 2), 0.0)


def target_counts(
    targets: str, weights: str | None, batch: Mapping[str, np.ndarray]
) -> np.ndarray:
    """int64 (C',): the number of targets with each id.

    Args:
        targets: Name of the feature with the targets.
        weights: Name of the feature with the targets' weights; None if all weights are
            1.
        batch: Features by name.

    Example:
    >>> target_counts("label", None, {"label": np.array([2, 0, 2])})
    array([1, 0, 2])
    """
    return np.bincount(_real_targets(targets, weights, batch))


def _real_targets(
    targets: str, weights: str | None, batch: Mapping[str, np.ndarray]
) -> np.ndarray:
    values = batch[targets]
    return values.reshape(-1) if weights is None else values[batch[weights] > 0]


def unigram_entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that counts describe.

    Example:
    >>> round(unigram_entropy(np.array([1, 1, 0, 2])), 4)  # 1.5 bits
    1.0397
    """
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
