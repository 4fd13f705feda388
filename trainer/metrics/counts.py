"""Helpers of the metrics: selection of real targets, counts, ratios of counts."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from transbeam.configs.base.errors import DataError

# The weights of targets, 0 for padding; None if all targets are real.
Weights = np.ndarray | None


class TargetPairs(NamedTuple):
    """The `M` real targets of all units, with their predictions.

    Attributes:
        unit: int64 (M,), ascending. The unit of each target.
        predicted: int64 (M,). The predicted ids.
        actual: int64 (M,). The target ids.
    """

    unit: np.ndarray
    predicted: np.ndarray
    actual: np.ndarray


def real_pairs(
    predictions: np.ndarray, targets: np.ndarray, weights: Weights = None
) -> TargetPairs:
    """Selects real targets, without padding and other positions of weight 0.

    Args:
        predictions: Integers (n,), or (n, T) for units with several targets.
        targets: Integers of the same shape.
        weights: Weights of the same shape, 0 for padding; None if all targets are real.

    Raises:
        ValueError: The shapes differ.

    Example:
    >>> real_pairs([[3, 7], [5, 7]], [[3, 0], [4, 7]], [[1, 0], [1, 1]]).unit
    array([0, 1, 1])
    """
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    real = np.ones(targets.shape, bool) if weights is None else np.asarray(weights) != 0
    if not predictions.shape == targets.shape == real.shape:
        raise ValueError(
            f"predictions {predictions.shape}, targets {targets.shape} and weights "
            f"{real.shape} must have one shape"
        )
    return TargetPairs(
        np.nonzero(real)[0],
        predictions[real].astype(np.int64),
        targets[real].astype(np.int64),
    )


def require_labels(ids: np.ndarray, labels: tuple[str, ...], what: str) -> None:
    """Checks that all ids have a label; other ids would count for another class.

    Raises:
        DataError: An id is out of range.
    """
    outside = (ids < 0) | (ids >= len(labels))
    if outside.any():
        raise DataError(
            f"{what}: found label {ids[outside][0]}, expected 0 to {len(labels) - 1} "
            f"({', '.join(labels[:5])}{', …' if len(labels) > 5 else ''}). Take the "
            "labels of the run that made the records"
        )


def tally(units: np.ndarray, classes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Counts how often each unit has each class: float64 of the given shape (n, C).

    Example:
    >>> tally(np.array([0, 0, 1]), np.array([1, 1, 0]), (2, 2))
    array([[0., 2.],
           [1., 0.]])
    """
    flat = np.bincount(units * shape[1] + classes, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)


def ratio(above: np.ndarray, below: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """Elementwise quotient, with `empty` where the denominator is 0.

    Example:
    >>> ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    array([0.25, 0.  ])
    """
    out = np.full(np.shape(below), empty)
    return np.divide(above, below, out=out, where=np.not_equal(below, 0))


def mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Elementwise mean, with NaN where the count is 0."""
    return ratio(total, count, empty=np.nan)


class ClassScores(NamedTuple):
    """Scores of one class; ratios without a denominator are 0.

    Attributes:
        precision: Share of the predictions of the class that are correct.
        recall: Share of the targets of the class that are predicted.
        f1: Their harmonic mean.
        support: Number of targets of the class.
    """

    precision: float
    recall: float
    f1: float
    support: int


class ClassCounts(NamedTuple):
    """Counts per class, each `(..., C)`: the summed statistics of class metrics.

    Attributes:
        correct: Correct predictions (true positives).
        predicted: All predictions.
        actual: Targets.
    """

    correct: np.ndarray
    predicted: np.ndarray
    actual: np.ndarray

    @classmethod
    def from_sums(cls, sums: np.ndarray) -> "ClassCounts":
        """Splits statistics of shape `(..., 3C)` into the three counts per class."""
        return cls(*np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0))

    def together(self) -> "ClassCounts":
        """Sums over the classes, each `(...)`."""
        return ClassCounts(*(count.sum(axis=-1) for count in self))

    def precision(self) -> np.ndarray:
        return ratio(self.correct, self.predicted)

    def recall(self) -> np.ndarray:
        return ratio(self.correct, self.actual)

    def f1(self) -> np.ndarray:
        return ratio(2 * self.correct, self.predicted + self.actual)

    def table(self, names: Iterable[str]) -> dict[str, ClassScores]:
        """Scores of every class, by name, from counts of shape (C,)."""
        rows = zip(
            names,
            self.precision().tolist(),
            self.recall().tolist(),
            self.f1().tolist(),
            self.actual.astype(int).tolist(),
            strict=True,
        )
        return {name: ClassScores(*scores) for name, *scores in rows}
