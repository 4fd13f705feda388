"""How good a model is on the validation split, beside what needs no model at all."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from trainer.asks import Ask
from trainer.losses import Sums
from trainer.metrics.intervals import Interval
from trainer.scoring import Answers, Batch, Scorer

Forward = Callable[[Batch], Any]  # answers, as the backend has them
Watcher = Callable[[Answers, Batch], None]

_SUMS = ("cost", "correct", "count")


@dataclass(frozen=True)
class Means:
    """What sums over targets come to.

    Attributes:
        loss: Nats per target; if several things are asked, their losses added up.
        accuracy: Share of first guesses that are right, of what is asked first.
        parts: The loss of each thing asked, by the model's output, if several are; and
            what was made small beside, which `loss` is without.
    """

    loss: float
    accuracy: float
    parts: Mapping[str, float]

    def as_json(self) -> dict[str, float]:
        parts = {f"loss_{name}": loss for name, loss in self.parts.items()}
        return {"loss": self.loss, "accuracy": self.accuracy, **parts}


def means(sums: Sums) -> Means:
    """Divides costs and hits by the targets there were.

    Example:
    >>> means({"logits": {"cost": 6.0, "correct": 1.0, "count": 4.0}}).as_json()
    {'loss': 1.5, 'accuracy': 0.25}
    """
    found = {
        name: float(of["cost"]) / max(float(of["count"]), 1.0)
        for name, of in sums.items()
    }
    answers = {name: of for name, of in sums.items() if "correct" in of}
    first = next(iter(answers.values()))
    accuracy = float(first["correct"]) / max(float(first["count"]), 1.0)
    loss = sum(found[name] for name in answers)
    return Means(loss, accuracy, found if len(found) > 1 else {})


@dataclass(frozen=True)
class Evaluation:
    """What a model reaches on a split.

    Attributes:
        loss: Nats per target; if several things are asked, their losses added up.
        perplexity: exp(loss).
        accuracy: Share of first guesses that are right, of what is asked first.
        unigram_entropy: Nats of the best guess that looks at no input: the entropy of
            the targets' own frequencies, added up like the loss.
        nats_below_unigram: How much the input is worth to the model.
        predictions: How many targets there were, of what is asked first.
        parts: The loss of each thing asked, if there are several.
        scores: What the objective is judged by, each with its interval of 95%.
    """

    loss: float
    perplexity: float
    accuracy: float
    unigram_entropy: float
    nats_below_unigram: float
    predictions: int
    parts: Mapping[str, float]
    scores: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        """Numbers by name; a bound that is not a number is None."""
        values = asdict(self)
        if not self.parts:
            del values["parts"]
        values["scores"] = {
            name: {end: x if math.isfinite(x) else None for end, x in of.items()}
            for name, of in ((n, i._asdict()) for n, i in self.scores.items())
        }
        return values


def on_host(batches: tf.data.Dataset) -> Iterator[Batch]:
    """The batches of a dataset as arrays, which every backend takes."""
    return cast("Iterator[Batch]", batches.as_numpy_iterator())


def sums_over(forward: Forward, batches: Iterable[Batch]) -> Sums:
    """What all answers cost, how many were right, and how many there were.

    Args:
        forward: From `trainer.step.build_evaluation`.
        batches: Features by name.
    """
    total: dict[str, dict[str, float]] = {}
    for batch in batches:
        _add_sums(total, _fetch(forward(batch)))
    return total


def evaluate(
    forward: Forward,
    asks: Sequence[Ask],
    scorers: Sequence[Scorer],
    batches: tf.data.Dataset,
    seed: int,
    watchers: Sequence[Watcher] = (),
) -> Evaluation:
    """Evaluates a model on every batch of a finite dataset.

    Args:
        forward: From `trainer.step.build_evaluation`.
        asks: What the records ask.
        scorers: What the answers are judged by.
        batches: Features by name.
        seed: For the intervals.
        watchers: Are shown the answers to each batch, and the batch.
    """
    total: dict[str, dict[str, float]] = {}
    counts = {ask.output: np.zeros(1, np.int64) for ask in asks}
    statistics: list[list[np.ndarray]] = [[] for _ in scorers]
    for batch in on_host(batches):
        answers = _fetch(forward(batch))
        _add_sums(total, answers)
        for ask in asks:
            counts[ask.output] = _add(counts[ask.output], target_counts(ask, batch))
        for scorer, rows in zip(scorers, statistics, strict=True):
            rows.append(scorer.statistics(answers, batch))
        for watch in watchers:
            watch(answers, batch)
    found = means(total)
    entropy = sum(unigram_entropy(of) for of in counts.values())
    scores: dict[str, Interval] = {}
    for scorer, rows in zip(scorers, statistics, strict=True):
        scores |= scorer.intervals(rows, seed)
    return Evaluation(
        loss=found.loss,
        perplexity=math.exp(min(found.loss, 700.0)),  # beyond it, a float ends
        accuracy=found.accuracy,
        unigram_entropy=entropy,
        nats_below_unigram=entropy - found.loss,
        predictions=int(counts[asks[0].output].sum()),
        parts=found.parts,
        scores=scores,
    )


def _fetch(answers: Any) -> Answers:
    return keras.tree.map_structure(keras.ops.convert_to_numpy, answers)


def _add_sums(total: dict[str, dict[str, float]], answers: Answers) -> None:
    """Adds what a batch comes to, in float64."""
    for output, answer in answers.items():
        sums = total.setdefault(output, dict.fromkeys(_SUMS, 0.0))
        for name in _SUMS:
            sums[name] += float(answer[name].sum(dtype=np.float64))


def target_counts(ask: Ask, batch: Batch) -> np.ndarray:
    """int64 (C',): how often each id is asked for.

    Example:
    >>> target_counts(Ask("logits", "label"), {"label": np.array([2, 0, 2])})
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


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two arrays, the shorter of which goes on with zeros."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def describe(evaluation: Evaluation, split: str = "validation") -> str:
    """One line about an evaluation, for people."""
    learned = "has learned" if evaluation.nats_below_unigram > 0 else "has NOT learned"
    told = [
        f"{split} loss {evaluation.loss:.3f} nats, unigram entropy "
        f"{evaluation.unigram_entropy:.3f}: {evaluation.nats_below_unigram:+.3f} nats "
        f"below it, so the model {learned} from context"
    ]
    scores = evaluation.scores
    if "perplexity" in scores:
        told.append(
            f"perplexity {evaluation.perplexity:.1f}, accuracy "
            f"{evaluation.accuracy:.1%} of {evaluation.predictions:,} predictions"
        )
        if "bits_per_byte" in scores:
            told.append(told_scores({"bits_per_byte": scores["bits_per_byte"]}))
    else:
        told.append(f"{told_scores(scores)} of {evaluation.predictions:,} predictions")
    return "; ".join(told)


def told_scores(scores: Mapping[str, Interval]) -> str:
    """Scores with their intervals, for people.

    Example:
    >>> told_scores({"macro_f1": Interval(0.75, 0.66, 0.83)})
    'macro f1 0.750 (0.660 to 0.830)'
    """
    return ", ".join(
        f"{name.replace('_', ' ')} {of.score:.3f} ({of.low:.3f} to {of.high:.3f})"
        for name, of in scores.items()
    )
