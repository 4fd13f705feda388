"""Decoders that learn to answer with adapters, and from a teacher."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.e2e.cases import finished
from tests.e2e.test_training import MODEL, TRAINING
from tests.harness.stages import copy_of
from tests.trainer.conftest import without_graphs
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.weights.assign import assign, variables_by_path
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.input.batches import training_batches
from transbeam.trainer.metrics.squad import token_f1
from transbeam.trainer.run import train

FILE = MODEL.format(kind="decoder") + TRAINING.replace("steps: 11", "steps: 4")
NO_DROPOUT = ("model.dropout=0", "model.attention.dropout=0")


@pytest.fixture(scope="module", params=["completion", "dialogue"])
def taught(request, tmp_path_factory) -> Invocation:
    """A finished training on answers; it is not to be changed."""
    made = finished(request.param)
    folder = tmp_path_factory.mktemp("answering")
    file = folder / f"{request.param}.yaml"
    file.write_text(made.config_file.read_text("utf-8") + FILE, "utf-8")
    copy_of(made.run_folder, folder / "taught")
    given = replace(made, config_file=file, run_folder=folder / "taught")
    run = replace(given, config=load_run(file))
    with without_graphs():
        train(run)
    return run


def trained(taught: Invocation, folder: Path, *overrides: str) -> Invocation:
    """Another training on the same records."""
    copy_of(taught.run_folder, folder)
    shutil.rmtree(folder / "training")
    config = load_run(taught.config_file, overrides)
    run = replace(taught, run_folder=folder, overrides=overrides, config=config)
    with without_graphs():
        train(run)
    return run


def weights(run: Invocation) -> dict[str, np.ndarray]:
    model = load_trained(run.run_folder).model
    return {path: w.numpy() for path, w in variables_by_path(model).items()}


def test_adapters(taught, tmp_path: Path) -> None:
    before = weights(taught)
    start = tmp_path / "weights.safetensors"
    save_weights_by_path(start, before.items())
    run = trained(
        taught,
        tmp_path / "run",
        f"training.initial_weights={start}",
        "training.adaptation={kind: lora, rank: 2, also_trained: []}",
    )
    after = weights(run)
    attention = "decoder_layer_0/self_attention"
    changed = {path for path in before if np.any(before[path] != after[path])}
    assert changed == {f"{attention}/{name}/kernel" for name in ("query", "value")}
    for path in changed:
        assert np.linalg.matrix_rank(after[path] - before[path], tol=1e-6) == 2


def test_an_evaluation_compares_written_answers_with_the_last_ones(
    taught, tmp_path: Path
) -> None:
    copy_of(taught.run_folder, tmp_path / "run")
    keys = ("text_scores=[exact_match,f1,rouge]", "max_new_tokens=4")
    overrides = [f"evaluation.{key}" for key in keys]
    config = load_run(taught.config_file, overrides)
    run = replace(taught, run_folder=tmp_path / "run", config=config)
    with without_graphs():
        found = evaluate_run(run)
    written = (Path(found["path"]) / "answers.jsonl").read_text("utf-8").splitlines()
    answers = [json.loads(line) for line in written]
    assert len(answers) == found["documents"] > 3
    corpora = Path(config.data.source.path).parent
    # The corpus says what was to be answered: with a mood, or the last reply.
    for answer in answers:
        corpus = (corpora / answer["source"]).read_bytes()
        row = json.loads(corpus[answer["offset"] :].splitlines()[0])
        wanted = row["messages"][-1]["content"] if "messages" in row else row["mood"]
        assert answer["target"] == wanted
    assert found["scores"]["perplexity"]["score"] == pytest.approx(
        np.exp(found["loss"]), rel=1e-5
    )
    trained = json.loads((run.run_folder / "training/stage.json").read_text("utf-8"))
    assert found["loss"] == pytest.approx(trained["result"]["evaluation"]["loss"])
    pairs = [(answer["answer"], answer["target"]) for answer in answers]
    expected = {
        "exact_match": np.mean([written == target for written, target in pairs]),
        "f1": np.mean([token_f1(written, target) for written, target in pairs]),
    }
    scores = {name: found["scores"][name]["score"] for name in expected}
    assert scores == pytest.approx(expected)


def test_a_teacher(taught, tmp_path: Path) -> None:
    """The teacher is asked where the student learns: at answers alone."""
    told = f"{{teacher: {taught.run_folder}, layers: [], cosine_weight: 0}}"
    run = trained(
        taught, tmp_path / "run", f"training.distillation={told}", *NO_DROPOUT
    )
    lines = (run.run_folder / "training/metrics.jsonl").read_text("utf-8").splitlines()
    first = next(row for row in map(json.loads, lines) if "loss" in row)
    assert first["step"] == 1

    manifest = read_manifest(run.run_folder / "data")
    training = run.config.training
    batch = next(
        iter(
            training_batches(
                manifest,
                batch_size=training.batch_size,
                shuffle_records=training.shuffle_records,
                seed=run.config.seed,
            )
        )
    )
    student, teacher = (
        build_trainable(each.config, manifest.vocabulary["size"])
        for each in (run, taught)
    )
    assign(teacher, weights(taught).items())
    here, there = (log_softmax_of(model, batch) for model in (student, teacher))
    nats = np.sum(np.exp(there) * (there - here), axis=-1)
    answers = batch["target_weights"].numpy()
    assert 0 < answers.sum() < np.sum(batch["document_ids"].numpy() > 0)
    expected = np.sum(nats * answers) / answers.sum()
    assert first["loss_teacher_logits"] == pytest.approx(expected, rel=1e-4)


def log_softmax_of(model: keras.Model, batch: dict[str, Any]) -> np.ndarray:
    """Logarithms of the probabilities at a temperature of 2."""
    features = {tensor.name: batch[tensor.name] for tensor in model.inputs}
    logits = keras.ops.convert_to_numpy(model(features, training=False)["logits"]) / 2
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
