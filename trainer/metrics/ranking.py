"""Ranking metrics: accuracy and mean reciprocal rank of the right candidate."""

from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean


@dataclass(frozen=True)
class RankingScores:
    """Share of right candidates ranked first, and the mean of 1 / rank.

    References:
        - [Voorhees, 1999](https://trec.nist.gov/pubs/trec8/papers/qa_report.pdf),
          section 3 (mean reciprocal rank)
    """

    def statistics(self, ranks: np.ndarray) -> np.ndarray:
        """Three numbers per record: 1 for rank 1 else 0, reciprocal rank, and 1.

        Args:
            ranks: (n,). The rank of each record's right candidate, from 1.

        Returns:
            float64 (n, 3).
        """
        ranks = np.asarray(ranks, np.float64)
        return np.stack([ranks == 1, 1 / ranks, np.ones_like(ranks)], axis=-1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `accuracy` and `mean_reciprocal_rank` from sums (..., 3).

        Example:
        >>> metric = RankingScores()
        >>> sums = metric.statistics(np.array([1, 4, 1, 2])).sum(axis=0)
        >>> {name: score.item() for name, score in metric.scores(sums).items()}
        {'accuracy': 0.5, 'mean_reciprocal_rank': 0.6875}
        """
        return {
            "accuracy": mean(sums[..., 0], sums[..., 2]),
            "mean_reciprocal_rank": mean(sums[..., 1], sums[..., 2]),
        }
