"""Metrics of each objective, and their statistics from a model's predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

import numpy as np

from transbeam.configs.base.bio_tags import marks_entities
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    EmbeddingObjective,
    FillsObjective,
    LabelSetObjective,
    NumberObjective,
    Objective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
)
from transbeam.trainer.metrics.classification import (
    ClassificationScores,
    LabelSetScores,
)
from transbeam.trainer.metrics.confidence_intervals import (
    Interval,
    intervals,
    intervals_of_draws,
)
from transbeam.trainer.metrics.entity_f1 import TaggingScores
from transbeam.trainer.metrics.language_modeling import Perplexity, TokenAccuracy
from transbeam.trainer.metrics.ranking import RankingScores
from transbeam.trainer.metrics.regression import RankCorrelation, RegressionScores
from transbeam.trainer.objectives.targets import Target, make_targets

Answers = Mapping[str, Mapping[str, np.ndarray]]  # the result of `Loss.answers`
Batch = Mapping[str, np.ndarray]


class Metric(Protocol):
    """A metric; see `transbeam.trainer.metrics`."""

    def scores(self, sums: np.ndarray) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True)
class Scorer:
    """A metric, with the function that computes its statistics for a batch of records.

    Attributes:
        metric: Computes scores from summed statistics.
        statistics: Function from predictions and their batch to float64 `(B, k)`.
        prefix: Prefix of the names of the metric's scores.
    """

    metric: Metric
    statistics: Callable[[Answers, Batch], np.ndarray]
    prefix: str = ""

    def intervals(
        self, statistics: Sequence[np.ndarray], seed: int
    ) -> dict[str, Interval]:
        """Scores over all batches, each with a 95% confidence interval."""
        found = intervals(np.concatenate(statistics), self.metric.scores, seed)
        return {self.prefix + name: interval for name, interval in found.items()}

    def scores(self, statistics: Sequence[np.ndarray]) -> dict[str, float]:
        """Scores over all batches, without intervals."""
        found = self.metric.scores(np.concatenate(statistics).sum(axis=0))
        return {self.prefix + name: score.item() for name, score in found.items()}


@dataclass(frozen=True)
class RankScorer(Scorer):
    """A rank metric, which cannot be computed from summed statistics."""

    metric: RankCorrelation

    def intervals(
        self, statistics: Sequence[np.ndarray], seed: int
    ) -> dict[str, Interval]:
        units = np.concatenate(statistics)
        scores = self.metric.scores_of_draws(units)
        return intervals_of_draws(len(units), scores, seed)

    def scores(self, statistics: Sequence[np.ndarray]) -> dict[str, float]:
        units = np.concatenate(statistics)
        found = self.metric.scores_of_draws(units)(np.ones((1, len(units))))
        return {name: score.item() for name, score in found.items()}


def make_scorers(
    objective: Objective, evaluation: EvaluationConfig
) -> tuple[Scorer, ...]:
    """The metrics that an evaluation of an objective reports in addition to the loss.

    Args:
        objective: The model's objective.
        evaluation: The rule by which entities count.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import ClassificationConfig
    >>> objective = ClassificationConfig(labels=("no", "yes"))
    >>> (scorer,) = make_scorers(objective, EvaluationConfig())
    >>> answers = {"logits": {"guesses": np.array([1, 1])}}
    >>> rows = scorer.statistics(answers, {"label": np.array([1, 0])})
    >>> scorer.metric.scores(rows.sum(axis=0))["accuracy"].item()
    0.5
    """
    first, *rest = make_targets(objective)
    if isinstance(objective, FillsObjective | TextObjective):
        return _perplexity(first), _guesses(TokenAccuracy(), first)
    if isinstance(objective, SentencePairsConfig):
        pair = _guesses(TokenAccuracy(), rest[0], prefix="pair_")
        return _perplexity(first), _guesses(TokenAccuracy(), first), pair
    if isinstance(objective, ChoiceObjective):
        return (_guesses(ClassificationScores(objective.labels), first),)
    if isinstance(objective, LabelSetObjective):
        return (_guesses(LabelSetScores(objective.labels), first),)
    if isinstance(objective, NumberObjective):
        return _numbers(first)
    if isinstance(objective, TokenChoiceObjective):
        labels = objective.labels
        # Asked at every piece, a word's tag comes several times.
        if marks_entities(labels) and not objective.all_pieces:
            return (_guesses(TaggingScores(labels, evaluation.strict_entities), first),)
        return (_guesses(ClassificationScores(labels), first),)
    if isinstance(objective, SpanObjective):
        return (_both_places(first, rest[0]),)
    if isinstance(objective, EmbeddingObjective):
        return (_ranks(first),)
    assert_never(objective)


def _perplexity(target: Target) -> Scorer:
    metric = Perplexity()

    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        answer = answers[target.output]
        return metric.statistics(answer["cost"], answer["count"])

    return Scorer(metric, statistics)


def _guesses(metric: Any, target: Target, prefix: str = "") -> Scorer:
    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        weights = None if target.weights is None else batch[target.weights]
        return metric.statistics(
            answers[target.output]["guesses"], batch[target.targets], weights
        )

    return Scorer(metric, statistics, prefix)


def _numbers(target: Target) -> tuple[Scorer, Scorer]:
    def statistics_by(metric: RegressionScores | RankCorrelation):
        return lambda answers, batch: metric.statistics(
            answers[target.output]["guesses"], batch[target.targets]
        )

    errors, ranks = RegressionScores(), RankCorrelation()
    return (
        Scorer(errors, statistics_by(errors)),
        RankScorer(ranks, statistics_by(ranks)),
    )


def _ranks(target: Target) -> Scorer:
    metric = RankingScores()

    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        return metric.statistics(answers[target.output]["guesses"])

    return Scorer(metric, statistics)


def _both_places(start: Target, end: Target) -> Scorer:
    """Share of windows whose predicted start and end are both correct."""
    metric = TokenAccuracy()

    def statistics(answers: Answers, batch: Batch) -> np.ndarray:
        right = [
            answers[target.output]["guesses"] == batch[target.targets]
            for target in (start, end)
        ]
        both = (right[0] & right[1]).astype(int)
        return metric.statistics(both, np.ones_like(both))

    return Scorer(metric, statistics, prefix="window_")
