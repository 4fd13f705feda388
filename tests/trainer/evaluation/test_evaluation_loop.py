"""An evaluation against numbers worked out by hand."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.batches import LABELS, OBJECTIVES, random_batch, small_model
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.supervised import TokenClassificationConfig
from transbeam.trainer.evaluation.evaluation_loop import (
    Evaluation,
    NotFiniteError,
    describe,
    evaluate,
    validate,
)
from transbeam.trainer.metrics.classification import ClassificationScores
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.metrics.entity_f1 import TaggingScores
from transbeam.trainer.metrics.language_modeling import TokenAccuracy
from transbeam.trainer.objectives.baselines import read_baseline, unigram_entropy
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.objective_metrics import Scorer, make_scorers
from transbeam.trainer.objectives.targets import Target, make_targets
from transbeam.trainer.step.build import build_evaluation

TOKENS_SCORES = {"nats_per_token", "perplexity", "accuracy"}
CLASSES = {"accuracy", "macro_f1", "matthews_correlation"}
EXPECTED = {
    "sentence_pairs": {*TOKENS_SCORES, "pair_accuracy"},
    "classification": CLASSES,
    "regression": {
        "mse",
        "mae",
        "r_squared",
        "pearson_correlation",
        "spearman_correlation",
    },
    "token_classification": CLASSES,
    "span_qa": {"window_accuracy"},
    "image_classification": CLASSES,
    "multi_label_classification": {
        "micro_f1",
        "macro_f1",
        "exact_match",
        *(f"f1_{label}" for label in LABELS),
    },
}
TOKENS = Target("logits", "ids", "weights")
PAIRS = Target("pair_logits", "label")
BATCHES = tf.data.Dataset.from_tensor_slices(
    {
        "ids": [[7, 7, 0], [2, 0, 0]],
        "weights": [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        "label": [1, 1],
    }
).batch(1)


def forward(batch):
    """As if each target cost as many nats as its id, and 2 were never right."""
    asked = (batch["weights"] > 0).astype("float32")
    right = (batch["ids"] != 2) * asked
    one = np.ones(len(asked), "float32")
    return {
        "logits": {
            "guesses": np.where(right, batch["ids"], 3),
            "cost": (batch["ids"] * asked).sum(1),
            "correct": right.sum(1),
            "count": asked.sum(1),
        },
        "pair_logits": {
            "guesses": one.astype("int32"),
            "cost": 0.25 * one,
            "correct": one,
            "count": one,
        },
    }


def test_targets_are_counted_where_they_are_asked_for() -> None:
    counts = sum(
        np.pad(of := TOKENS.input_free_sums(batch), (0, 8 - len(of)))
        for batch in BATCHES.as_numpy_iterator()
    )
    np.testing.assert_array_equal(counts, [0, 0, 1, 0, 0, 0, 0, 2])
    expected = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    assert unigram_entropy(counts) == pytest.approx(expected)


def test_sums_weigh_targets_and_not_batches() -> None:
    pair = Scorer(TokenAccuracy(), guessed(PAIRS), prefix="pair_")
    found = validate(forward, (pair,), BATCHES.as_numpy_iterator())
    assert found.loss == pytest.approx(16 / 3 + 0.25)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.parts == {"logits": 16 / 3, "pair_logits": 0.25}
    assert found.as_json() == {
        "loss": found.loss,
        "pair_accuracy": 1.0,
        "accuracy": found.accuracy,
        "loss_logits": 16 / 3,
        "loss_pair_logits": 0.25,
    }


def test_an_evaluation_of_two_things_asked() -> None:
    scorers = (
        Scorer(TokenAccuracy(), guessed(TOKENS)),
        Scorer(TokenAccuracy(), guessed(PAIRS), prefix="pair_"),
    )
    found = evaluate(forward, (TOKENS, PAIRS), scorers, BATCHES, seed=1)
    entropy = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))  # the label says nothing
    assert found.unigram_entropy == pytest.approx(entropy)
    assert found.nats_below_unigram == pytest.approx(entropy - found.loss)
    assert found.predictions == 3
    assert found.perplexity == pytest.approx(math.exp(16 / 3))  # of the tokens
    assert found.scores["accuracy"].score == found.accuracy
    assert found.scores["pair_accuracy"] == (1.0, 1.0, 1.0)
    told = found.as_json()["scores"]["accuracy"]
    assert 0.0 <= told["low"] <= told["score"] == 2 / 3


def guessed(ask: Target):
    def statistics(answers, batch):
        weights = batch[ask.weights] if ask.weights else None
        guesses = answers[ask.output]["guesses"]
        return TokenAccuracy().statistics(guesses, batch[ask.targets], weights)

    return statistics


def test_what_costs_beyond_all_floats_has_a_perplexity() -> None:
    def hopeless(batch):
        answers = forward(batch)
        return {"logits": {**answers["logits"], "cost": np.array([9e4])}}

    found = evaluate(hopeless, (TOKENS,), (), BATCHES, seed=1)
    assert found.perplexity == math.exp(700)


def test_a_loss_that_is_no_number_is_refused() -> None:
    def broken(batch):
        answers = forward(batch)
        return {"logits": {**answers["logits"], "cost": np.array([np.nan])}}

    with pytest.raises(NotFiniteError, match="loss of the split is nan"):
        evaluate(broken, (TOKENS,), (), BATCHES, seed=1)


@pytest.mark.parametrize("kind", OBJECTIVES)
def test_every_objective_has_scores_of_its_own(kind) -> None:
    objective = OBJECTIVES[kind]
    model, asks = small_model(objective), make_targets(objective)
    batch = random_batch(objective, 6)
    answers = keras.tree.map_structure(
        keras.ops.convert_to_numpy, build_evaluation(model, Loss(asks))(batch)
    )
    found = {}
    for scorer in make_scorers(objective, EvaluationConfig()):
        found |= scorer.intervals([scorer.statistics(answers, batch)], seed=1)
    assert found.keys() == EXPECTED.get(kind, TOKENS_SCORES)
    first = answers[asks[0].output]
    if "accuracy" in found:
        share = first["correct"].sum() / first["count"].sum()
        assert found["accuracy"].score == pytest.approx(share)
    if "nats_per_token" in found:
        nats = first["cost"].sum() / first["count"].sum()
        assert found["nats_per_token"].score == pytest.approx(nats)


def test_entities_are_scored_where_tags_mark_them() -> None:
    labels = ("O", "B-PER", "I-PER")
    for strict in (False, True):
        evaluation = EvaluationConfig(strict_entities=strict)
        config = TokenClassificationConfig(labels=labels)
        (scorer,) = make_scorers(config, evaluation)
        assert isinstance(scorer.metric, TaggingScores)
        assert scorer.metric.strict is strict
    pieces = TokenClassificationConfig(labels=labels, all_pieces=True)
    (scorer,) = make_scorers(pieces, EvaluationConfig())
    assert isinstance(scorer.metric, ClassificationScores)


@pytest.mark.parametrize(
    ("score", "loss", "said"),
    [
        ("perplexity", 0.6, "+0.100 nats below it, so the model has learned from"),
        ("perplexity", 0.8, "-0.100 nats below it, so the model has NOT learned from"),
        ("macro_f1", 0.6, "+0.100 nats below it, so the model has learned from"),
        ("macro_f1", 0.8, "-0.100 nats below it, so its probabilities are worse than"),
    ],
)
def test_what_is_said_of_a_loss(score, loss, said) -> None:
    evaluation = Evaluation(
        loss=loss,
        perplexity=math.exp(loss),
        accuracy=0.78,
        unigram_entropy=0.7,
        nats_below_unigram=0.7 - loss,
        predictions=100,
        parts={},
        scores={score: Interval(0.5, 0.4, 0.6)},
    )
    assert said in describe(evaluation)


@pytest.mark.parametrize(
    ("loss", "said"), [(0.6, "has learned to tell"), (0.8, "has NOT learned to tell")]
)
def test_what_is_said_of_pairs(loss, said) -> None:
    evaluation = Evaluation(
        loss=loss,
        uniform_entropy=0.7,
        predictions=100,
        parts={},
        scores={"mean_reciprocal_rank": Interval(0.5, 0.4, 0.6)},
    )
    told = describe(evaluation)
    assert f"uniform entropy 0.700: the model {said}" in told
    assert told.endswith("mean reciprocal rank 0.500 (0.400 to 0.600) of 100 pairs")
    assert read_baseline(evaluation.as_json()).loss == 0.7


def test_an_evaluation_of_pairs() -> None:
    """Of three pairs two partners are first, in batches of two and of one."""
    hashes = np.arange(1, 13, dtype="int32").reshape(3, 2, 2)
    texts = np.array([[1, 0], [0, 1], [1, 0]], "float32")
    partners = np.array([[0, 1], [0.6, 0.8], [0, 1]], "float32")
    vectors = np.stack([texts, partners], axis=1)
    batches = tf.data.Dataset.from_tensor_slices(
        {"text_hashes": hashes, "vectors": vectors}
    ).batch(2)
    config = ContrastivePairsConfig(scale=1.0)
    targets = make_targets(config)
    loss = Loss(targets)

    def compared(batch):
        return loss.answers({"embedding": batch["vectors"]}, batch)

    found = evaluate(
        compared, targets, make_scorers(config, EvaluationConfig()), batches, seed=1
    )
    costs = [np.log(1 + np.exp(0.6)), np.log(1 + np.exp(0.2)), 0.0]
    assert found.loss == pytest.approx(np.mean(costs), rel=1e-5)
    assert found.accuracy == pytest.approx(1 / 3)
    assert found.scores["mean_reciprocal_rank"].score == pytest.approx(2 / 3)
    assert found.uniform_entropy == pytest.approx(2 * np.log(2) / 3)
    assert found.perplexity is None
