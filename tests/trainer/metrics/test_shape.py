"""Common to all metrics: statistics of parts add up to those of the whole."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from transbeam.trainer.metrics.calibration import BrierScore, CalibrationError
from transbeam.trainer.metrics.classification import ClassificationScores
from transbeam.trainer.metrics.confidence_intervals import intervals
from transbeam.trainer.metrics.entity_f1 import TaggingScores
from transbeam.trainer.metrics.generated_text import BLEU, ChrF, Rouge
from transbeam.trainer.metrics.language_modeling import (
    BitsPerByte,
    Perplexity,
    TokenAccuracy,
)
from transbeam.trainer.metrics.ranking import RankingScores
from transbeam.trainer.metrics.regression import RegressionScores
from transbeam.trainer.metrics.squad import SpanAnswerScores

WORDS = ["the", "a", "dog", "runs", "on", "beach", "red", "small", "and", "sleeps"]
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def ids(rng: np.random.Generator, count: int, of: int) -> tuple[np.ndarray, ...]:
    """Predictions of which some are right, targets and weights."""
    targets = rng.integers(0, of, (count, 6))
    guesses = rng.integers(0, of, (count, 6))
    predictions = np.where(rng.random((count, 6)) < 0.6, targets, guesses)
    return predictions, targets, np.arange(6) < rng.integers(1, 7, (count, 1))


def sums(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    amounts = rng.integers(1, 30, count)
    return rng.gamma(amounts), amounts


def guesses(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    targets = rng.normal(2.0, 1.0, count)
    return targets + rng.normal(0.0, 0.5, count), targets


def overconfident(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    probabilities = rng.uniform(0.6, 1.0, count)
    return probabilities, rng.random(count) < probabilities - 0.4


def ranks(rng: np.random.Generator, count: int) -> tuple[np.ndarray, ...]:
    return (rng.geometric(0.4, count),)


def texts(rng: np.random.Generator, count: int) -> tuple[list[str], list[str]]:
    targets = [list(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(count)]
    predictions = [[*target[:-2], str(rng.choice(WORDS))] for target in targets]
    return [" ".join(p) for p in predictions], [" ".join(t) for t in targets]


def answers(rng: np.random.Generator, count: int) -> tuple[list[str], list[list[str]]]:
    predictions, targets = texts(rng, count)
    right = rng.random(count) < 0.4
    golds = [
        [target, prediction] if hit else [target]
        for prediction, target, hit in zip(predictions, targets, right, strict=True)
    ]
    return predictions, golds


@dataclass(frozen=True)
class Row:
    metric: Any
    draw: Callable[[np.random.Generator, int], tuple[Any, ...]]
    names: set[str]


TABLE = {
    "perplexity": Row(Perplexity(), sums, {"nats_per_token", "perplexity"}),
    "bits per byte": Row(BitsPerByte(), sums, {"bits_per_byte"}),
    "masked accuracy": Row(
        TokenAccuracy(), lambda rng, n: ids(rng, n, 50), {"accuracy"}
    ),
    "classification": Row(
        ClassificationScores(("a", "b", "c")),
        lambda rng, n: ids(rng, n, 3),
        {"accuracy", "macro_f1", "matthews_correlation"},
    ),
    "tagging": Row(
        TaggingScores(TAGS),
        lambda rng, n: ids(rng, n, 5),
        {"accuracy", "entity_precision", "entity_recall", "entity_f1"},
    ),
    "regression": Row(
        RegressionScores(), guesses, {"mse", "mae", "r_squared", "pearson_correlation"}
    ),
    "ranking": Row(RankingScores(), ranks, {"accuracy", "mean_reciprocal_rank"}),
    "calibration": Row(CalibrationError(), overconfident, {"calibration_error"}),
    "Brier score": Row(BrierScore(), sums, {"brier_score"}),
    "answers": Row(SpanAnswerScores(), answers, {"exact_match", "f1"}),
    "BLEU": Row(BLEU(), texts, {"bleu"}),
    "BLEU of words": Row(BLEU("none", lowercase=True), texts, {"bleu"}),
    "chrF": Row(ChrF(), texts, {"chrf"}),
    "ROUGE": Row(Rouge(), texts, {"rouge1", "rouge2", "rougeL", "rougeLsum"}),
}
EACH = pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())


def drawn(row: Row, count: int) -> tuple[tuple[Any, ...], np.ndarray]:
    given = row.draw(np.random.default_rng(count), count)
    return given, row.metric.statistics(*given)


@EACH
def test_statistics_of_batches_are_those_of_the_whole(row: Row) -> None:
    given, whole = drawn(row, 20)
    parts = [
        row.metric.statistics(*(values[start : start + 7] for values in given))
        for start in range(0, 20, 7)
    ]
    assert whole.dtype == np.float64
    assert len(whole) == 20
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@EACH
def test_sums_with_leading_axes_are_scored_one_by_one(row: Row) -> None:
    _, statistics = drawn(row, 24)
    stacked = statistics.reshape(2, 3, 4, -1).sum(axis=2)
    scores = row.metric.scores(stacked)
    assert scores.keys() == row.names
    for name, values in scores.items():
        assert values.shape == (2, 3)
        one_by_one = [row.metric.scores(sums)[name] for sums in stacked.reshape(6, -1)]
        np.testing.assert_array_equal(values.ravel(), one_by_one)


@EACH
def test_intervals_hold_the_score_and_are_those_of_the_seed(row: Row) -> None:
    _, statistics = drawn(row, 150)
    found = intervals(statistics, row.metric.scores, seed=3, resamples=400)
    score = row.metric.scores(statistics.sum(axis=0))
    assert found.keys() == row.names
    for name, interval in found.items():
        assert interval.score == score[name]
        assert interval.low < interval.score < interval.high
    again = intervals(statistics, row.metric.scores, seed=3, resamples=400)
    other = intervals(statistics, row.metric.scores, seed=4, resamples=400)
    assert found == again != other


@EACH
def test_intervals_of_four_times_as_many_units_are_half_as_wide(row: Row) -> None:
    _, few = drawn(row, 150)
    many = np.repeat(few, 4, axis=0)
    wide = intervals(few, row.metric.scores, seed=0)
    narrow = intervals(many, row.metric.scores, seed=0)
    for name in row.names:
        ratio = (narrow[name].high - narrow[name].low) / (
            wide[name].high - wide[name].low
        )
        assert 0.4 < ratio < 0.6


def test_metrics_need_neither_keras_nor_libraries_that_are_not_used() -> None:
    program = (
        "import sys\n"
        "from transbeam.trainer.metrics import calibration, classification\n"
        "from transbeam.trainer.metrics import confidence_intervals\n"
        "from transbeam.trainer.metrics import entity_f1, generated_text, regression\n"
        "from transbeam.trainer.metrics import language_modeling, squad\n"
        "print(*sorted(sys.modules.keys() & {'keras', 'tensorflow', 'sacrebleu',\n"
        "    'rouge_score', 'nltk', 'sklearn'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []
