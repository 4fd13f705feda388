"""Classification metrics: one label per text or word, or several per text."""

from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import (
    ClassCounts,
    Weights,
    mean,
    ratio,
    real_pairs,
    require_labels,
    tally,
)

# The start of the names of the scores of single labels.
LABEL_F1 = "f1_"


@dataclass(frozen=True)
class ClassificationScores:
    """Accuracy, macro F1 and Matthews' correlation of one or more targets per unit.

    The scores need no confusion matrix, only three counts per class: correct
    predictions, predictions, and targets.

    Args:
        labels: The names of the classes; an id is an index into them.
    """

    labels: tuple[str, ...]

    def statistics(
        self, predictions: np.ndarray, targets: np.ndarray, weights: Weights = None
    ) -> np.ndarray:
        """Counts per unit; a unit is a record or text, which the bootstrap resamples.

        Args:
            predictions: Class ids: (n,), or (n, T) with several targets per unit.
            targets: Ids of the same shape.
            weights: Weights of the same shape, 0 for padding; None if all targets are
                real.

        Returns:
            float64 (n, 3C).

        Raises:
            DataError: An id has no label.
            ValueError: The shapes differ.
        """
        pairs = real_pairs(predictions, targets, weights)
        require_labels(pairs.predicted, self.labels, "predictions")
        require_labels(pairs.actual, self.labels, "targets")
        right = pairs.predicted == pairs.actual
        shape = (len(targets), len(self.labels))
        return np.hstack(
            [
                tally(pairs.unit[right], pairs.actual[right], shape),
                tally(pairs.unit, pairs.predicted, shape),
                tally(pairs.unit, pairs.actual, shape),
            ]
        )

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `accuracy`, `macro_f1`, `matthews_correlation` from sums (..., 3C).

        Of two classes also the F1 of each, `f1_LABEL`: that of class 1 is GLUE's F1.

        Example:
        >>> metric = ClassificationScores(("no", "yes"))
        >>> statistics = metric.statistics([0, 0, 1, 1], [0, 0, 0, 1])
        >>> scores = metric.scores(statistics.sum(axis=0))
        >>> {name: round(score.item(), 4) for name, score in scores.items()}
        {'accuracy': 0.75, 'macro_f1': 0.7333, 'matthews_correlation': 0.5774, \
'f1_no': 0.8, 'f1_yes': 0.6667}
        """
        counts = ClassCounts.from_sums(sums)
        together, each = counts.together(), counts.f1()
        named = self.labels if len(self.labels) == 2 else ()
        return {
            "accuracy": mean(together.correct, together.actual),
            "macro_f1": macro_f1(counts),
            "matthews_correlation": matthews_correlation(counts),
            **{f"f1_{name}": each[..., i] for i, name in enumerate(named)},
        }


def macro_f1(counts: ClassCounts) -> np.ndarray:
    """Mean F1 of the classes that occur among targets or predictions."""
    met = (counts.predicted + counts.actual > 0).sum(axis=-1)
    return mean(counts.f1().sum(axis=-1), met)


def matthews_correlation(counts: ClassCounts) -> np.ndarray:
    """Matthews' correlation coefficient, for any number of classes.

    1 for perfect predictions, 0 for uninformative ones. For two classes it is the
    coefficient of Matthews, for more that of
    [Gorodkin, 2004](https://doi.org/10.1016/j.compbiolchem.2004.09.006). 0 if all
    predictions or all targets are of one class.

    Args:
        counts: Counts per class, each (..., C).

    Returns:
        float64 (...).
    """
    correct, total, _ = counts.together()
    agreed = (counts.predicted * counts.actual).sum(axis=-1)
    guesses = total**2 - (counts.predicted**2).sum(axis=-1)
    truths = total**2 - (counts.actual**2).sum(axis=-1)
    return ratio(correct * total - agreed, np.sqrt(guesses * truths))


def confusion(
    predictions: np.ndarray,
    targets: np.ndarray,
    labels: tuple[str, ...],
    weights: Weights = None,
) -> np.ndarray:
    """Computes the confusion matrix.

    Args:
        predictions: As in `ClassificationScores`.
        targets: As there.
        labels: As there.
        weights: As there.

    Returns:
        int64 (C, C), targets in rows and predictions in columns. The matrix of all data
        is the sum of the matrices of its parts.

    Raises:
        DataError: An id has no label.
        ValueError: The shapes differ.

    Example:
    >>> confusion([0, 0, 1, 1], [0, 0, 0, 1], ("no", "yes"))
    array([[2, 1],
           [0, 1]])
    """
    pairs = real_pairs(predictions, targets, weights)
    require_labels(pairs.predicted, labels, "predictions")
    require_labels(pairs.actual, labels, "targets")
    return tally(pairs.actual, pairs.predicted, (len(labels), len(labels))).astype(
        np.int64
    )


@dataclass(frozen=True)
class LabelSetScores:
    """Micro and macro F1, the F1 of each label, and the exact-match ratio.

    Args:
        labels: The names of the labels, in the order of the columns.
    """

    labels: tuple[str, ...]

    def statistics(
        self, predictions: np.ndarray, targets: np.ndarray, weights: Weights = None
    ) -> np.ndarray:
        """Computes the counts of each text; `scores` takes their sums.

        Args:
            predictions: int (n, C), 1 for each label that is predicted.
            targets: int (n, C), 1 for each label that applies.
            weights: Not used; every label of every text has weight 1.

        Returns:
            float64 (n, 3C + 2): C columns of true positives, C of predicted labels and
            C of labels that apply; then a column that is 1 if all labels of the text
            are predicted correctly; then a column of ones, whose sum is the number of
            texts.

        Raises:
            ValueError: The shapes differ, or do not have a column for each label.
        """
        predictions, targets = np.asarray(predictions), np.asarray(targets)
        expected = (len(targets), len(self.labels))
        if not predictions.shape == targets.shape == expected:
            raise ValueError(
                f"predictions {predictions.shape} and targets {targets.shape} must be "
                f"of shape {expected}"
            )
        exact = (predictions == targets).all(axis=1, keepdims=True)
        counts = [
            predictions * targets,
            predictions,
            targets,
            exact,
            np.ones_like(exact),
        ]
        return np.hstack(counts).astype(np.float64)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the scores from sums of counts, (..., 3C + 2).

        Example:
        >>> metric = LabelSetScores(("law", "sport"))
        >>> statistics = metric.statistics([[1, 0], [1, 1]], [[1, 0], [0, 1]])
        >>> scores = metric.scores(statistics.sum(axis=0))
        >>> {name: round(score.item(), 4) for name, score in scores.items()}
        {'micro_f1': 0.8, 'macro_f1': 0.8333, 'exact_match': 0.5, 'f1_law': 0.6667, \
'f1_sport': 1.0}
        """
        counts = ClassCounts.from_sums(sums[..., :-2])
        each = counts.f1()
        return {
            "micro_f1": counts.together().f1(),
            "macro_f1": macro_f1(counts),
            "exact_match": mean(sums[..., -2], sums[..., -1]),
            **{LABEL_F1 + name: each[..., i] for i, name in enumerate(self.labels)},
        }
