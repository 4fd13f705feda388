"""What metrics are made of: real targets, counts of them, and ratios of counts."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from transbeam.configs.base.errors import DataError


class TargetPairs(NamedTuple):
    """The real targets of all units in one row of `M`, and what was predicted.

    Attributes:
        unit: int64 (M,), ascending. Which unit each is of.
        predicted: int64 (M,). What the model says.
        asked: int64 (M,). What is right.
    """

    unit: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray


def real_pairs(
    predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None
) -> TargetPairs:
    """Leaves out padding and whatever else nobody asked for.

    Args:
        predictions: Integers (n,), or (n, T) for units with several answers.
        targets: Integers of the same shape.
        weights: Of the same shape, 0 where nothing is asked for; None: all is real.

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
    """Refuses ids without a label, which would be counted as another one's.

    Raises:
        DataError: One of them is outside the range.
    """
    outside = (ids < 0) | (ids >= len(labels))
    if outside.any():
        raise DataError(
            f"{what}: found label {ids[outside][0]}, expected 0 to {len(labels) - 1} "
            f"({', '.join(labels[:5])}{', …' if len(labels) > 5 else ''}). Take the "
            "labels of the run that made the records"
        )


def tally(units: np.ndarray, classes: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """float64 of this shape, (n, C): how often each unit has each class.

    Example:
    >>> tally(np.array([0, 0, 1]), np.array([1, 1, 0]), (2, 2))
    array([[0., 2.],
           [1., 0.]])
    """
    flat = np.bincount(units * shape[1] + classes, minlength=shape[0] * shape[1])
    return flat.reshape(shape).astype(np.float64)


def ratio(above: np.ndarray, below: np.ndarray, empty: float = 0.0) -> np.ndarray:
    """Quotients of equal shapes, and `empty` where there is nothing to divide by.

    Example:
    >>> ratio(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    array([0.25, 0.  ])
    """
    out = np.full(np.shape(below), empty)
    return np.divide(above, below, out=out, where=np.not_equal(below, 0))


def mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """`ratio` for means: the mean of nothing is not a number."""
    return ratio(total, count, empty=np.nan)


class ClassScores(NamedTuple):
    """How one class fares; ratios without a denominator are 0.

    Attributes:
        precision: Share of its predictions that are right.
        recall: Share of what was asked for that was found.
        f1: Their harmonic mean.
        support: How often it was asked for.
    """

    precision: float
    recall: float
    f1: float
    support: int


class ClassCounts(NamedTuple):
    """Counts per class, each `(..., C)`; what statistics of classes add up to.

    Attributes:
        correct: Predicted and right.
        predicted: Predicted at all.
        asked: To be found.
    """

    correct: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray

    @classmethod
    def from_sums(cls, sums: np.ndarray) -> "ClassCounts":
        """Reads statistics `(..., 3C)` with the counts one behind the other."""
        return cls(*np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0))

    def together(self) -> "ClassCounts":
        """Summed over the classes, each `(...)`."""
        return ClassCounts(*(count.sum(axis=-1) for count in self))

    def precision(self) -> np.ndarray:
        return ratio(self.correct, self.predicted)

    def recall(self) -> np.ndarray:
        return ratio(self.correct, self.asked)

    def f1(self) -> np.ndarray:
        return ratio(2 * self.correct, self.predicted + self.asked)

    def table(self, names: Iterable[str]) -> dict[str, ClassScores]:
        """The scores of every class, for counts of one evaluation, each (C,)."""
        rows = zip(
            names,
            self.precision().tolist(),
            self.recall().tolist(),
            self.f1().tolist(),
            self.asked.astype(int).tolist(),
            strict=True,
        )
        return {name: ClassScores(*scores) for name, *scores in rows}
