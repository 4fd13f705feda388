"""Input-free baselines of a loss: unigram entropy, or the targets' variance."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from transbeam.trainer.objectives.objective_metrics import Batch
from transbeam.trainer.objectives.targets import NumberTarget, Target


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


def yardstick(evaluation: Mapping[str, Any]) -> Baseline:
    """Reads the baseline of a training's losses from its evaluation.

    Args:
        evaluation: The result of `Evaluation.as_json`.

    Example:
    >>> yardstick({"loss": 0.5, "variance": 2.0})
    Baseline(unit='squared error per target', name='variance', loss=2.0)
    """
    if "variance" in evaluation:
        least = evaluation["variance"]
        return Baseline("squared error per target", "variance", least)
    least = evaluation["unigram_entropy"]
    return Baseline("nats per target", "unigram entropy", least)


def target_sums(ask: Target, batch: Batch) -> np.ndarray:
    """Statistics of a batch's targets that the input-free baseline is computed from."""
    if isinstance(ask, NumberTarget):
        return number_sums(ask, batch)
    return target_counts(ask, batch)


def number_sums(ask: NumberTarget, batch: Batch) -> np.ndarray:
    """Count of the targets, their sum, and the sum of their squares: float64 (3,).

    Example:
    >>> number_sums(NumberTarget("score", "label"), {"label": np.array([2.0, -3.0])})
    array([ 2., -1., 13.])
    """
    targets = batch[ask.targets].astype(np.float64)
    return np.array([np.sum(targets**power) for power in range(3)])


def variance(sums: np.ndarray) -> float:
    """Variance from the sums of `number_sums`.

    Example:
    >>> variance(np.array([2.0, -1.0, 13.0]))
    6.25
    """
    count = max(sums[0], 1.0)
    return max(float(sums[2] / count - (sums[1] / count) ** 2), 0.0)


def target_counts(ask: Target, batch: Batch) -> np.ndarray:
    """Frequency of each target id, up to the largest one that occurs: int64 (C',).

    Example:
    >>> target_counts(Target("logits", "label"), {"label": np.array([2, 0, 2])})
    array([1, 0, 2])
    """
    targets = batch[ask.targets]
    if ask.weights is not None:
        targets = targets[batch[ask.weights] > 0]
    return np.bincount(targets.reshape(-1))


def unigram_entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that counts describe.

    Example:
    >>> round(unigram_entropy(np.array([1, 1, 0, 2])), 4)  # 1.5 bits
    1.0397
    """
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())
