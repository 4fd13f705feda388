"""SQuAD's exact match and F1, for extractive question answering.

The scores equal those of the [official script for version
2.0](https://rajpurkar.github.io/SQuAD-explorer/), where a question may have no answer;
if every question has an answer, they also equal the scores of version 1.1's script.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transbeam.trainer.metrics.counts import mean

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Normalizes an answer: no case, ASCII punctuation, English articles, extra space.

    Example:
    >>> normalize_answer("The  U.S. Senate!")
    'us senate'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(prediction: str, target: str) -> float:
    """F1 of the words that two answers share; 1 for two empty answers.

    Example:
    >>> round(token_f1("the red squirrel", "a squirrel"), 4)
    0.6667
    """
    predicted = normalize_answer(prediction).split()
    actual = normalize_answer(target).split()
    if not predicted or not actual:
        return float(predicted == actual)
    shared = (Counter(predicted) & Counter(actual)).total()
    return 2 * shared / (len(predicted) + len(actual))


@dataclass(frozen=True)
class SpanAnswerScores:
    """Exact match after normalization, and mean word F1, of answers."""

    def statistics(
        self, predictions: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> np.ndarray:
        """Returns exact match, F1, and a count of 1 for each question.

        Args:
            predictions: The predicted answer to each question; an empty string for no
                answer.
            targets: All correct answers to each question; the prediction is compared
                with each of them, and the best score counts. Empty if the question has
                no answer. Answers that are empty after normalization are ignored.

        Returns:
            float64 (n, 3).

        Raises:
            ValueError: There are not as many predictions as targets.
        """
        rows = []
        for prediction, golds in zip(predictions, targets, strict=True):
            actual = [gold for gold in golds if normalize_answer(gold)] or [""]
            answer = normalize_answer(prediction)
            exact = any(answer == normalize_answer(gold) for gold in actual)
            rows.append((exact, max(token_f1(prediction, gold) for gold in actual), 1))
        return np.array(rows, np.float64).reshape(-1, 3)

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Computes `exact_match` and `f1`, between 0 and 1, from sums (..., 3).

        Example:
        >>> metric = SpanAnswerScores()
        >>> statistics = metric.statistics(
        ...     ["The Elbe.", "the river Spree"], [["Elbe"], ["Spree", "the Spree"]]
        ... )
        >>> scores = metric.scores(statistics.sum(axis=0))
        >>> {name: round(score.item(), 4) for name, score in scores.items()}
        {'exact_match': 0.5, 'f1': 0.8333}
        """
        return {
            "exact_match": mean(sums[..., 0], sums[..., 2]),
            "f1": mean(sums[..., 1], sums[..., 2]),
        }
