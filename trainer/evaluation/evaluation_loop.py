"""Evaluation loop: loss, metrics and input-free baselines on a split."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import UserError
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.records.manifest import Manifest
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.input.dynamic_masking import DynamicMasking
from transbeam.trainer.metrics.classification import LABEL_F1
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.objectives.losses import Sums
from transbeam.trainer.objectives.objective_metrics import (
    Answers,
    Batch,
    Scorer,
    make_scorers,
)
from transbeam.trainer.objectives.targets import (
    NumberTarget,
    PairTarget,
    Target,
    make_targets,
)

Forward = Callable[[Batch], Any]  # the `answers` of `Loss`, as the backend's tensors
Collector = Callable[[Answers, Batch], None]

# The summed metric of each kind of target, and the name of its mean.
_METRICS = {"correct": "accuracy", "absolute_error": "mae"}
_SUMS = ("cost", "count", *_METRICS)


class NotFiniteError(UserError):
    """A loss or a gradient is not finite."""


@dataclass(frozen=True)
class EvaluationMetrics:
    """Mean loss and metrics per target, computed from summed values.

    Attributes:
        loss: Loss per target: cross-entropy in nats for classes, squared error for
            numbers; the sum over the objective's targets, if it has several.
        accuracy: Top-1 accuracy of the objective's first target; None for regression.
        parts: The loss of each target, by the name of the model's output, if there are
            several targets; and additional terms of the training loss, which are not
            part of `loss`.
        mae: Mean absolute error for regression; None for all other objectives.
        scores: The objective's metrics in a validation; empty for training steps.
    """

    loss: float
    accuracy: float | None
    parts: Mapping[str, float]
    mae: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, float]:
        metrics = {"accuracy": self.accuracy, "mae": self.mae}
        known = {name: value for name, value in metrics.items() if value is not None}
        parts = {f"loss_{name}": loss for name, loss in self.parts.items()}
        return {"loss": self.loss, **self.scores, **known, **parts}


def means(sums: Sums) -> EvaluationMetrics:
    """Divides summed losses and metrics by the number of targets.

    Example:
    >>> means({"logits": {"cost": 6.0, "correct": 1.0, "count": 4.0}}).as_json()
    {'loss': 1.5, 'accuracy': 0.25}
    >>> means({"score": {"cost": 6.0, "absolute_error": 4.0, "count": 4.0}}).as_json()
    {'loss': 1.5, 'mae': 1.0}
    """
    found = {
        name: float(of["cost"]) / max(float(of["count"]), 1.0)
        for name, of in sums.items()
    }
    answers = {name: of for name, of in sums.items() if of.keys() & _METRICS.keys()}
    first = next(iter(answers.values()))
    metrics = {
        mean: float(first[name]) / max(float(first["count"]), 1.0)
        for name, mean in _METRICS.items()
        if name in first
    }
    loss = sum(found[name] for name in answers)
    parts = found if len(found) > 1 else {}
    return EvaluationMetrics(loss, metrics.get("accuracy"), parts, metrics.get("mae"))


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Results of a model on a split.

    `perplexity`, `accuracy`, `unigram_entropy` and `nats_below_unigram` are None for
    regression; `variance` is None for all other objectives. Contrastive learning has
    `accuracy`, and `uniform_entropy`, which is None for all others.

    Attributes:
        loss: Loss per target: cross-entropy in nats for classes, squared error for
            numbers; the sum over the objective's targets, if it has several.
        perplexity: exp(loss of the first target).
        accuracy: Top-1 accuracy of the first target.
        unigram_entropy: Loss in nats of the best input-free prediction: the entropy of
            the targets' frequencies, summed like the loss.
        nats_below_unigram: `unigram_entropy` minus `loss`: the model's gain from its
            input.
        variance: Variance of the targets, which is the loss of the best input-free
            prediction: their mean.
        uniform_entropy: Loss of a model with equal vectors for all texts: the mean
            logarithm of the number of candidates.
        predictions: Number of targets of the first output.
        parts: The loss of each target, if there are several.
        scores: The objective's metrics, each with its 95% confidence interval.
    """

    loss: float
    perplexity: float | None = None
    accuracy: float | None = None
    unigram_entropy: float | None = None
    nats_below_unigram: float | None = None
    variance: float | None = None
    uniform_entropy: float | None = None
    predictions: int
    parts: Mapping[str, float]
    scores: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        """The attributes that are not None, by name; NaN in intervals becomes None."""
        values = {name: x for name, x in asdict(self).items() if x is not None}
        if not self.parts:
            del values["parts"]
        values["scores"] = {
            name: {end: x if math.isfinite(x) else None for end, x in of.items()}
            for name, of in ((n, i._asdict()) for n, i in self.scores.items())
        }
        return values


def on_host(batches: tf.data.Dataset) -> Iterator[Batch]:
    """Iterates over batches as NumPy arrays, which every backend accepts."""
    return cast("Iterator[Batch]", batches.as_numpy_iterator())


def validate(
    forward: Forward, scorers: Sequence[Scorer], batches: Iterable[Batch]
) -> EvaluationMetrics:
    """Means and scores over some batches, without intervals or baselines.

    Args:
        forward: From `transbeam.trainer.step.build.build_evaluation`.
        scorers: The objective's metrics.
        batches: Features by name.
    """
    total, statistics = _sum_up(forward, scorers, batches, ())
    scores: dict[str, float] = {}
    for scorer, rows in zip(scorers, statistics, strict=True):
        scores |= scorer.scores(rows)
    logged = {name: x for name, x in scores.items() if not _is_left_out(name)}
    return replace(means(total), scores=logged)


def _is_left_out(name: str) -> bool:
    """Leaves functions of the loss out of the log, and scores of single labels."""
    of_the_loss = ("nats_per_token", "perplexity", "mse")
    return name.endswith(of_the_loss) or name.startswith(LABEL_F1)


def _sum_up(
    forward: Forward,
    scorers: Sequence[Scorer],
    batches: Iterable[Batch],
    collectors: Sequence[Collector],
) -> tuple[Sums, list[list[np.ndarray]]]:
    """Sums losses and counts over batches; also returns each metric's statistics."""
    total: dict[str, dict[str, float]] = {}
    statistics: list[list[np.ndarray]] = [[] for _ in scorers]
    for batch in batches:
        answers = _fetch(forward(batch))
        _add_sums(total, answers)
        for scorer, rows in zip(scorers, statistics, strict=True):
            rows.append(scorer.statistics(answers, batch))
        for collect in collectors:
            collect(answers, batch)
    return total, statistics


def evaluate(
    forward: Forward,
    targets: Sequence[Target],
    scorers: Sequence[Scorer],
    batches: tf.data.Dataset,
    seed: int,
    collectors: Sequence[Collector] = (),
) -> Evaluation:
    """Evaluates a model on every batch of a finite dataset.

    Args:
        forward: From `transbeam.trainer.step.build.build_evaluation`.
        targets: The objective's targets.
        scorers: The objective's metrics.
        batches: Features by name.
        seed: Seed of the bootstrap.
        collectors: Collectors, called with the results and features of each batch.

    Raises:
        NotFiniteError: The loss is not finite.
    """
    input_free = {target.output: np.zeros(1, np.int64) for target in targets}

    def add_input_free(answers: Answers, batch: Batch) -> None:
        for target in targets:
            input_free[target.output] = _add(
                input_free[target.output], target.input_free_sums(batch)
            )

    total, statistics = _sum_up(
        forward, scorers, on_host(batches), (add_input_free, *collectors)
    )
    found = means(total)
    if not math.isfinite(found.loss):
        raise NotFiniteError(
            f"the loss of the split is {found.loss}, though every weight is finite: a "
            "number on the way was too large. Try training.precision=float32"
        )
    scores: dict[str, Interval] = {}
    for scorer, rows in zip(scorers, statistics, strict=True):
        scores |= scorer.intervals(rows, seed)
    first = targets[0]
    common = Evaluation(
        loss=found.loss,
        predictions=int(total[first.output]["count"]),
        parts=found.parts,
        scores=scores,
    )
    if isinstance(first, NumberTarget):
        return replace(common, variance=first.input_free_loss(input_free[first.output]))
    if isinstance(first, PairTarget):
        uniform = first.input_free_loss(input_free[first.output])
        return replace(common, accuracy=found.accuracy, uniform_entropy=uniform)
    entropy = sum(
        target.input_free_loss(input_free[target.output]) for target in targets
    )
    return replace(
        common,
        # exp overflows a float beyond about 709.
        perplexity=math.exp(min(found.parts.get(first.output, found.loss), 700.0)),
        accuracy=found.accuracy,
        unigram_entropy=entropy,
        nats_below_unigram=entropy - found.loss,
    )


def _fetch(answers: Any) -> Answers:
    return keras.tree.map_structure(keras.ops.convert_to_numpy, answers)


def _add_sums(total: dict[str, dict[str, float]], answers: Answers) -> None:
    """Adds a batch's sums to the totals, in float64."""
    for output, answer in answers.items():
        there = [name for name in _SUMS if name in answer]
        sums = total.setdefault(output, dict.fromkeys(there, 0.0))
        for name in there:
            sums[name] += float(answer[name].sum(dtype=np.float64))


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adds two arrays, the shorter padded with zeros."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def describe(evaluation: Evaluation, split: str = "validation") -> str:
    """Describes an evaluation in one line, for the console."""
    if evaluation.variance is not None:
        return _describe_numbers(evaluation, evaluation.variance, split)
    if evaluation.uniform_entropy is not None:
        return _describe_ranks(evaluation, evaluation.uniform_entropy, split)
    gained = evaluation.nats_below_unigram or 0.0
    scores = evaluation.scores
    if gained > 0:
        learned = "so the model has learned from context"
    elif "perplexity" in scores:
        learned = "so the model has NOT learned from context"
    else:  # a classifier that is too sure of itself may be right all the same
        learned = "so its probabilities are worse than the targets' shares alone"
    parts = [
        f"{split} loss {evaluation.loss:.3f} nats, unigram entropy "
        f"{evaluation.unigram_entropy:.3f}: {gained:+.3f} nats below it, {learned}"
    ]
    if "perplexity" in scores:
        parts.append(
            f"perplexity {evaluation.perplexity:.1f}, accuracy "
            f"{evaluation.accuracy:.1%} of {evaluation.predictions:,} predictions"
        )
        if "bits_per_byte" in scores:
            parts.append(format_scores({"bits_per_byte": scores["bits_per_byte"]}))
    else:
        parts.append(
            f"{format_scores(scores)} of {evaluation.predictions:,} predictions"
        )
    return "; ".join(parts)


def _describe_numbers(evaluation: Evaluation, least: float, split: str) -> str:
    learned = "has learned" if evaluation.loss < least else "has NOT learned"
    scores = {n: of for n, of in evaluation.scores.items() if n != "mse"}
    return (
        f"{split} mean squared error {evaluation.loss:.4g}, variance of the targets "
        f"{least:.4g}: the model {learned} more than their mean; "
        f"{format_scores(scores)} of {evaluation.predictions:,} predictions"
    )


def _describe_ranks(evaluation: Evaluation, least: float, split: str) -> str:
    learned = "has learned" if evaluation.loss < least else "has NOT learned"
    return (
        f"{split} loss {evaluation.loss:.3f} nats, uniform entropy {least:.3f}: the "
        f"model {learned} to tell partners from other texts of a batch; "
        f"{format_scores(evaluation.scores)} of {evaluation.predictions:,} pairs"
    )


def format_scores(scores: Mapping[str, Interval]) -> str:
    """Formats scores with their intervals, for the console.

    Example:
    >>> format_scores({"macro_f1": Interval(0.75, 0.66, 0.83)})
    'macro f1 0.750 (0.660 to 0.830)'
    """
    return ", ".join(
        f"{name.replace('_', ' ')} {of.score:.3f} ({of.low:.3f} to {of.high:.3f})"
        for name, of in scores.items()
    )


def evaluate_split(
    config: RunConfig,
    forward: Forward,
    manifest: Manifest,
    masking: DynamicMasking | None,
    more: Sequence[Scorer] = (),
    collectors: Sequence[Collector] = (),
) -> Evaluation:
    """Evaluates a model on every validation record.

    Args:
        config: The run.
        forward: From `build_evaluation`.
        manifest: The records.
        masking: Dynamic masking, for records without static masks.
        more: Metrics in addition to those of the objective.
        collectors: See `evaluate`.
    """
    batches = validation_batches(manifest, config.training.batch_size, masking)
    return evaluate(
        forward,
        make_targets(config.objective),
        (*make_scorers(config.objective, config.evaluation), *more),
        batches,
        config.seed,
        collectors,
    )
