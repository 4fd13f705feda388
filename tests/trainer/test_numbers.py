"""A number that is to be predicted: its loss and gradient by hand, and a whole run."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.model.conftest import without_jax
from tests.trainer.batches import OBJECTIVES, random_batch, small_model
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.safetensors_store import load_matching_weights
from transbeam.pipeline.stage import data
from transbeam.trainer.distillation.distillation_loss import DistillationLoss
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.evaluation.evaluation_loop import describe, evaluate, means
from transbeam.trainer.loop.metrics_file import read_metrics
from transbeam.trainer.objectives.losses import Loss
from transbeam.trainer.objectives.objective_metrics import make_scorers
from transbeam.trainer.objectives.targets import NumberTarget, make_targets
from transbeam.trainer.run import train
from transbeam.trainer.step.build import build_step
from transbeam.trainer.step.state import TrainState

REGRESSION = OBJECTIVES["regression"]


def test_the_loss_by_hand() -> None:
    loss = Loss(make_targets(REGRESSION), label_smoothing=0.3, z_loss=0.1)  # of choices
    batch = {"label": np.array([4.0, -1.0], "float32")}
    outputs = {"score": np.array([2.5, -1.25], "float32")}
    value, sums = loss(outputs, batch, [np.float32(8.0)])
    squares = 1.5**2 + 0.25**2
    assert float(value) == pytest.approx(squares / 8)
    found = {name: float(x) for name, x in sums["score"].items()}
    assert found == pytest.approx(
        {"cost": squares, "absolute_error": 1.75, "count": 2.0}
    )
    assert means(sums).as_json() == pytest.approx({"loss": squares / 2, "mae": 0.875})
    answers = loss.answers(outputs, batch)["score"]
    assert ops.convert_to_numpy(answers["guesses"]).tolist() == [2.5, -1.25]
    assert ops.convert_to_numpy(answers["costs"]).tolist() == [2.25, 0.0625]
    assert ops.convert_to_numpy(answers["absolute_error"]).tolist() == [1.5, 0.25]


def test_a_gradient_by_hand() -> None:
    """Of the head's bias: twice the mean error."""
    batch = random_batch(REGRESSION, 4)
    model = small_model(REGRESSION)
    inputs = {tensor.name: batch[tensor.name] for tensor in model.inputs}
    error = ops.convert_to_numpy(model(inputs)["score"]) - batch["label"]
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build(model.trainable_variables)
    config = TrainingConfig(steps=100, clip_norm=None)
    state = TrainState(model, optimizer, config)
    numbers = build_step(state, Loss(make_targets(REGRESSION)), config)(batch)
    bias = ops.convert_to_numpy(model.get_layer("regressor").bias)
    assert bias[0] == pytest.approx(-0.5 * 2 * error.mean(), rel=1e-5)
    assert float(numbers["loss"]) == pytest.approx((error**2).mean(), rel=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_numbers_have_the_digits_of_float32_in_every_precision(dtype) -> None:
    model = small_model(REGRESSION, dtype=dtype)
    model.get_layer("regressor").bias.assign([70_001.0])  # beyond float16
    batch = random_batch(REGRESSION, 4)
    inputs = {tensor.name: batch[tensor.name] for tensor in model.inputs}
    score = model(inputs)["score"]
    assert keras.backend.standardize_dtype(score.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(score), 70_001.0, atol=5.0)


def test_a_teachers_numbers_by_hand() -> None:
    """The temperature, which is for choices, makes no difference."""
    values = []
    for temperature in (1.0, 3.0):
        config = DistillationConfig(
            teacher="runs/teacher",
            temperature=temperature,
            task_weight=3.0,
            teacher_weight=5.0,
            cosine_weight=0.0,
        )
        stub = cast("keras.Model", SimpleNamespace(output={}))
        loss = DistillationLoss(
            (NumberTarget("score", "label"),), student=stub, teacher=stub, config=config
        )
        batch = {
            "label": np.array([1.0, 1.0], "float32"),
            "teacher/score": np.array([2.0, -1.0], "float32"),
        }
        outputs = {"score": np.array([1.5, 0.0], "float32")}
        value, sums = loss(outputs, batch, loss.counts(batch))
        assert float(sums["teacher_score"]["cost"]) == 0.5**2 + 1
        assert means(sums).loss == (0.5**2 + 1) / 2
        values.append(float(value))
    expected = 3 * (0.5**2 + 1) / 2 + 5 * (0.5**2 + 1) / 2
    assert values == pytest.approx([expected, expected])


def test_begins_with_a_body_that_was_trained_for_something_else() -> None:
    masked, rated = small_model(OBJECTIVES["masked"], seed=3), small_model(REGRESSION)
    weights = {
        path: ops.convert_to_numpy(weight.value)
        for path, weight in variables_by_path(masked).items()
    }
    new = load_matching_weights(rated, weights, "runs/bert")
    assert new == ["regressor/kernel", "regressor/bias"]
    table = variables_by_path(rated)["token_embedding/embeddings"].value
    expected = weights["token_embedding/embeddings"]
    np.testing.assert_array_equal(ops.convert_to_numpy(table), expected)


def test_an_evaluation_is_held_against_the_mean() -> None:
    targets = [1.0, 2.0, 6.0]
    answers = {1.0: 2.0, 2.0: 2.0, 6.0: 4.0}
    loss = Loss(make_targets(REGRESSION))

    def forward(batch):
        guesses = np.array([answers[x] for x in batch["label"].tolist()], "float32")
        return loss.answers({"score": guesses}, batch)

    batches = tf.data.Dataset.from_tensor_slices({"label": targets}).batch(2)
    scorers = make_scorers(REGRESSION, EvaluationConfig())
    found = evaluate(forward, loss.targets, scorers, batches, seed=1)
    assert found.loss == pytest.approx(5 / 3)
    assert found.variance == pytest.approx(14 / 3)
    assert found.predictions == 3
    assert found.scores["r_squared"].score == pytest.approx(1 - 5 / 14)
    told = found.as_json()
    assert told.keys() == {"loss", "variance", "predictions", "scores"}
    assert told["scores"]["mse"]["score"] == pytest.approx(5 / 3)
    line = describe(found, "test")
    assert line.startswith(
        "test mean squared error 1.667, variance of the targets 4.667: the model has "
        "learned more than their mean; mae 1.000 ("
    )
    assert line.endswith(" of 3 predictions")


YAML = """
name: moods
seed: 2
data:
  source: {kind: csv, path: PATH, columns: {text: text, label: stars}}
  sequence_length: 8
  maximum_quarantine_fraction: 0.05
tokenizer: {kind: wordpiece, vocabulary_size: 49}
objective: {kind: regression}
model:
  kind: encoder
  num_layers: 1
  hidden_dim: 32
  max_sequence_length: 8
  dropout: 0.0
  attention: {num_heads: 2, dropout: 0.0}
  feedforward: {intermediate_dim: 64}
  pooler: {kind: mean}
training:
  steps: 200
  batch_size: 32
  schedule: {peak: 1e-2, warmup_steps: 20}
  evaluate_every: 100
evaluation: {errors: 3}
"""
WORTH = {"good": 1.0, "great": 2.5, "fine": 0.5, "bad": -1.0, "awful": -2.0, "so": 0.0}


def write_ratings(path: Path) -> None:
    """Writes ratings, which depend on the words; one rating is not a number."""
    rng = np.random.default_rng(0)
    rows = {tuple(rng.choice(list(WORTH), 5)) for _ in range(700)}
    lines = [
        f"{' '.join(words)},{3 + sum(WORTH[word] for word in words)}"
        for words in sorted(rows)
    ]
    path.write_text("\n".join(["text,stars", "so so,none", *lines]) + "\n")


@without_jax
def test_ratings_are_learned_and_the_worst_are_named(tmp_path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    file = tmp_path / "run.yaml"
    file.write_text(YAML.replace("PATH", str(tmp_path / "ratings.csv")))
    run = Invocation(
        config=load_run(file, with_model=True),
        config_file=file,
        overrides=(),
        run_folder=tmp_path / "run",
        console=Console(quiet=True),
        workers=1,
    )
    made = data(run)
    reason = "label 'none' is not a finite number"
    assert made["counts"]["quarantined"] == {reason: 1}
    result = train(run)
    evaluation = result["evaluation"]
    assert evaluation["loss"] < 0.1 * evaluation["variance"]
    assert evaluation["scores"]["spearman_correlation"]["low"] > 0.9
    rows = read_metrics(run.run_folder / "training")
    assert all("mae" in row for row in rows if "loss" in row)
    assert all("val_mae" in row for row in rows if "val_loss" in row)

    evaluated = evaluate_run(run)
    assert evaluated["scores"].items() == evaluation["scores"].items()
    folder = run.run_folder / "evaluation/validation"
    lines = (folder / "errors.jsonl").read_text("utf-8").splitlines()
    worst = [json.loads(line) for line in lines]
    assert len(worst) == 3
    for row in worst:
        assert "nats" not in row
        expected = 3 + sum(WORTH[word] for word in row["text"].split())
        assert float(row["target"]) == expected
        assert row["error"] == pytest.approx(float(row["guess"]) - expected, abs=1e-4)
    sizes = [abs(row["error"]) for row in worst]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] >= math.sqrt(evaluation["loss"])
    page = (folder / "report.html").read_text("utf-8")
    assert f"{worst[0]['error']:+.4g}" in page
    assert "nats" not in page
    training = (run.run_folder / "training/report.html").read_text("utf-8")
    assert "squared error per target" in training
    assert "nats" not in training
