"""Runs that learn from another run."""

import dataclasses
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.harness.stages import copy_of
from tests.trainer.conftest import _invocation as invocation_of
from tests.trainer.conftest import eagerly, trained_run
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.schema.distillation import DistillationConfig
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.model.weights.assign import variables_by_path
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.base.training_stage import build_trainable, training_inputs
from transbeam.trainer.distillation.teacher import load_teacher
from transbeam.trainer.evaluation.evaluate_command import evaluate_run
from transbeam.trainer.loop.metrics_log import TrainingLog
from transbeam.trainer.run import train

STEPS = ("training.steps=6", "training.evaluate_every=3", "training.deterministic=true")


TWO_BLOCKS = ("model.num_layers=2", "training.steps=2")


@pytest.fixture(scope="module")
def teacher(small_data: Path) -> Invocation:
    """A finished run of two blocks; it is not to be changed."""
    folder = trained_run("two-blocks", *TWO_BLOCKS)
    return invocation_of(small_data / "small.yaml", folder, *TWO_BLOCKS)


def weights(invocation: Invocation) -> dict[str, np.ndarray]:
    model = build_trainable(invocation.config, 120)
    path = invocation.run_folder / "training/model.weights.h5"
    keras.saving.load_weights(model, path)
    return {path: w.numpy() for path, w in variables_by_path(model).items()}


def learning_from(folder: Path, **keys: object) -> str:
    told = "".join(f", {key}: {value}" for key, value in keys.items())
    return f"training.distillation={{teacher: {folder}{told}}}"


@eagerly
def test_a_student_from_yaml(run, teacher, monkeypatch) -> None:
    keys = (*STEPS, "training.accumulation=2", learning_from(teacher.run_folder))
    whole = run(*keys, folder="whole")
    result = train(whole)
    lines = (whole.run_folder / "training/metrics.jsonl").read_text().splitlines()
    told = next(row for row in map(json.loads, lines) if "loss" in row)
    assert told["loss"] == told["loss_logits"]  # the teacher's part is beside it
    assert told["loss_teacher_logits"] > 0
    assert 0 < told["loss_cosine"] < 1
    assert evaluate_run(whole).items() >= result["evaluation"].items()
    # What is saved is the student's alone, under the names it has without a teacher.
    checkpoint = max((whole.run_folder / "training/checkpoints").iterdir())
    described = json.loads((checkpoint / "state.json").read_text())["tensors"]
    saved = {of["path"] for n, of in described.items() if n.startswith("model/")}
    model = build_trainable(whole.config, 120)
    assert {w.path for w in model.weights} == {p for p in saved if "seed" not in p}

    add = TrainingLog.add

    def interrupted(self, numbers, input_seconds):
        add(self, numbers, input_seconds)
        if self.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    halted = run(*keys, folder="halted")
    with monkeypatch.context() as patched:
        patched.setattr(TrainingLog, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(halted)
    with monkeypatch.context() as patched:
        # The checkpoint has the weights: nothing is copied, and said, once more.
        patched.setattr(
            "transbeam.trainer.distillation.distillation_loss.begin_as", None
        )
        train(halted)
    after = weights(whole)
    for path, weight in weights(halted).items():
        np.testing.assert_array_equal(weight, after[path], err_msg=path)


@pytest.mark.thorough(
    instead="test_a_student_from_yaml, test_a_student_begins_as_blocks_of_its_teacher"
)
def test_a_student_begins_with_its_teachers_weights_and_adapters_suit_it(
    run, teacher
) -> None:
    invocation = run(
        *("training.steps=1", "training.adaptation={kind: lora, also_trained: []}"),
        learning_from(teacher.run_folder, layers=[1]),
    )
    result = train(invocation)
    assert result["trained_parameters"] == 2 * 2 * 8 * 16
    there, here = weights(teacher), weights(invocation)
    for path, weight in here.items():
        origin = path.replace("encoder_layer_0/", "encoder_layer_1/")
        if not path.endswith(("query/kernel", "value/kernel")):
            np.testing.assert_array_equal(weight, there[origin], err_msg=path)


def test_another_teacher_trains_anew(run, teacher, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    copy_of(teacher.run_folder, folder)
    config = run(learning_from(folder)).config
    before = training_inputs(config, "")
    elsewhere = folder.rename(tmp_path / "elsewhere")
    assert training_inputs(config, "", before) == before
    moved = run(learning_from(elsewhere)).config
    assert training_inputs(moved, "") == before
    with (elsewhere / "training/model.weights.h5").open("ab") as file:
        file.write(b"#")
    assert training_inputs(moved, "") != before


def load(
    config: RunConfig, folder: Path, vocabulary: Mapping[str, Any] | None = None
) -> keras.Model:
    manifest = read_manifest(folder / "data")
    distillation = DistillationConfig(teacher=str(folder))
    return load_teacher(config, distillation, vocabulary or manifest.vocabulary)


def test_teachers_of_something_else(run, teacher, tmp_path: Path) -> None:
    config, folder = run().config, teacher.run_folder
    pairs = dataclasses.replace(config, objective=SentencePairsConfig())
    with pytest.raises(ConfigError, match=r"kind=masked, and this run is for sent"):
        load(pairs, folder)
    with pytest.raises(ArtifactError, match=r"another tokenizer: .*path: .*/tok"):
        load(config, folder, {"size": 120, "fingerprint": "0" * 64})
    long = dataclasses.replace(config.data, sequence_length=64)
    with pytest.raises(ConfigError, match=r"cannot read the records: .*=64 is more"):
        load(dataclasses.replace(config, data=long), folder)
    distillation = DistillationConfig(teacher=str(tmp_path / "none"))
    with pytest.raises(ArtifactError, match=r"none: has no trained model"):
        load_teacher(config, distillation, {})


def test_teachers_of_other_labels(run, teacher, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    copy_of(teacher.run_folder, folder)
    file = folder / "training/run.yaml"
    text = file.read_text()
    start, end = text.index("objective:\n"), text.index("model:\n")
    labels = "objective: {kind: classification, labels: [bad, good]}\n"
    file.write_text(text[:start] + labels + text[end:])
    config = dataclasses.replace(
        run().config, objective=ClassificationConfig(labels=("good", "bad"))
    )
    with pytest.raises(ConfigError, match=r"\['bad', 'good'\], and here .*'good', 'b"):
        load(config, folder)


def test_a_damaged_teacher(run, teacher, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    copy_of(teacher.run_folder, folder)
    file = folder / "training/model.weights.h5"
    model = build_trainable(teacher.config, 120)
    weight = model.trainable_variables[3]
    weight.assign(np.full(weight.shape, np.nan))
    keras.saving.save_weights(model, file)
    with pytest.raises(ArtifactError, match=f"{weight.path} is not finite"):
        load(run().config, folder)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ArtifactError, match="cannot be loaded"):
        load(run().config, folder)
