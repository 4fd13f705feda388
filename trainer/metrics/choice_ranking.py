"""Accuracy of choices that are ranked by their log-likelihoods.

A long choice has a lower log-likelihood than a short one. So choices are compared in
several ways, each with its own name: by the sum of their tokens' log-probabilities; by
the mean per token, character or UTF-8 byte; and by how much the question raises the sum
above that after a prompt without a question ([Brown et al.,
2020](https://arxiv.org/abs/2005.14165), section 2.4; [Holtzman et al.,
2021](https://arxiv.org/abs/2104.08315)).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean

RANKINGS = {
    "accuracy": "sum",
    "accuracy_per_token": "per token",
    "accuracy_per_character": "per character",
    "accuracy_per_byte": "per byte",
    "accuracy_over_unconditional": "over the prompt without question",
}


def rank_choices(
    log_likelihoods: np.ndarray,
    texts: Sequence[str],
    tokens: Sequence[int],
    unconditional: np.ndarray | None = None,
) -> dict[str, int]:
    """Returns the number of the best choice in each ranking; of equal ones the first.

    Args:
        log_likelihoods: (C,). Of each choice after the question, in nats.
        texts: The choices, without what separates them from the prompt.
        tokens: The number of tokens of each choice.
        unconditional: (C,). The log-likelihoods after the prompt without a question.

    Example:
    >>> rank_choices(np.array([-6.0, -7.5]), ["no", "perhaps"], [1, 2])
    {'accuracy': 0, ..., 'accuracy_per_character': 1, 'accuracy_per_byte': 1}
    """
    scores = {
        "accuracy": log_likelihoods,
        "accuracy_per_token": log_likelihoods / np.array(tokens),
        "accuracy_per_character": log_likelihoods / np.array([len(x) for x in texts]),
        "accuracy_per_byte": log_likelihoods
        / np.array([len(text.encode("utf-8")) for text in texts]),
    }
    if unconditional is not None:
        scores["accuracy_over_unconditional"] = log_likelihoods - unconditional
    return {name: int(np.argmax(values)) for name, values in scores.items()}


@dataclass(frozen=True)
class ChoiceAccuracy:
    """The share of questions whose best choice is the right one, in each ranking.

    Args:
        names: The names of the rankings.
    """

    names: tuple[str, ...]

    def statistics(
        self, chosen: Sequence[Mapping[str, int]], right: Sequence[int]
    ) -> np.ndarray:
        """Returns a 1 for each ranking with the right choice, and a count of 1.

        Args:
            chosen: The results of `rank_choices`, one for each question.
            right: The number of the right choice of each question.

        Returns:
            float64 (n, rankings + 1).
        """
        rows = [
            [*(of[name] == number for name in self.names), 1]
            for of, number in zip(chosen, right, strict=True)
        ]
        return np.array(rows, np.float64).reshape(-1, len(self.names) + 1)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes the accuracies from sums (..., rankings + 1).

        Example:
        >>> metric = ChoiceAccuracy(("accuracy", "accuracy_per_token"))
        >>> chosen = [{"accuracy": 1, "accuracy_per_token": 0}] * 2
        >>> sums = metric.statistics(chosen, [1, 0]).sum(axis=0)
        >>> {name: score.item() for name, score in metric.scores(sums).items()}
        {'accuracy': 0.5, 'accuracy_per_token': 0.5}
        """
        return {
            name: mean(sums[..., number], sums[..., -1])
            for number, name in enumerate(self.names)
        }
