"""Multi-label classification: any number of labels for each text."""

from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.classification import macro_f1
from transbeam.trainer.metrics.counts import ClassCounts, ClassScores, mean


@dataclass(frozen=True)
class LabelSetScores:
    """Micro and macro F1, the F1 of each label, and the exact-match ratio.

    Args:
        labels: The names of the labels, in the order of the columns.
    """

    labels: tuple[str, ...]

    def statistics(
        self,
        predictions: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """Computes the counts of each text, which `scores` takes the sums of.

        Args:
            predictions: int (n, C), 1 for each label that is predicted.
            targets: int (n, C), 1 for each label that applies.
            weights: Not used; every label of every text has weight 1.

        Returns:
            float64 (n, 3C + 2): C columns of true positives, C of predicted labels and
            C of labels that apply; then 1 if all labels of the text are right; then 1,
            to count the texts.

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
            **{f"f1_{name}": each[..., i] for i, name in enumerate(self.labels)},
        }

    def per_class(self, sums: np.ndarray) -> dict[str, ClassScores]:
        """Precision, recall, F1 and support of each label, from sums (3C + 2,)."""
        return ClassCounts.from_sums(sums[:-2]).table(self.labels)
