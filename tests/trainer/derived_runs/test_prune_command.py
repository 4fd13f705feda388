"""A model without some heads and units: which go, and what comes of the rest."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.harness.stages import copy_of
from tests.small_run import paragraphs
from tests.trainer.conftest import eagerly, trained_run
from tests.trainer.importing.hugging_face_checkpoints import write_bert
from tests.trainer.masked_logits import scores
from transbeam.configs.loader.yaml_config import load_run
from transbeam.model.adaptation.structured_pruning import OUTPUT, part_widths
from transbeam.model.weights.assign import variables_by_path
from transbeam.pipeline.records.manifest import Manifest
from transbeam.serving.base.trained_run import load_trained
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.weight_files import load_weights, save_weights
from transbeam.trainer.derived_runs.prune_command import measure
from transbeam.trainer.input.batches import training_batches
from transbeam.trainer.input.dynamic_masking import dynamic_masking
from transbeam.trainer.objectives.losses import make_loss
from transbeam.trainer.run import train

TEXTS = paragraphs(6)
SMALL = ("model.attention.num_heads=4", "training.steps=2")
ATTENTION, FEEDFORWARD = "encoder_layer_0/self_attention", "encoder_layer_0/feedforward"


@pytest.fixture(scope="module")
def trained() -> Path:
    """A trained run of 4 heads and 32 units; it is not to be changed."""
    return trained_run("four-heads", *SMALL)


def change(folder: Path, edit: Callable[[dict], None]) -> None:
    """Edits the weights of a trained run."""
    config = load_run(folder / "training/run.yaml")
    model, file = build_trainable(config, 120), folder / "training/model.weights.h5"
    load_weights(model, file)
    edit(variables_by_path(model))
    save_weights(model, file)


# ------------------------------------------------------------- importance


def test_importance_is_how_the_loss_changes_with_a_gate(
    run, manifest: Manifest
) -> None:
    config = run(*SMALL, "model.dropout=0.3").config
    model, loss = build_trainable(config, 120), make_loss(config)
    generator = np.random.default_rng(1)
    weights = variables_by_path(model)
    for weight in weights.values():
        weight.assign(weight + generator.normal(0.0, 0.3, weight.shape))
    batches = training_batches(
        manifest,
        batch_size=4,
        shuffle_records=8,
        seed=1,
        masking=dynamic_masking(config, manifest.folder),
    )
    batches = list(batches.take(3))
    widths = part_widths(weights, config.model)
    assert widths == {ATTENTION: 4, FEEDFORWARD: 1}
    found = measure(model, loss, batches, widths)

    def loss_with(path: str, kernel: np.ndarray, batch) -> float:
        weights[path].assign(kernel)
        features = {name: batch[name] for name in model.input}
        outputs = model(features, training=False)  # dropout says nothing of a part
        return float(loss(outputs, batch, loss.counts(batch))[0])

    for part, width in widths.items():
        path, step = f"{part}/{OUTPUT}", 1e-2
        kernel = weights[path].numpy()
        for number, worth in enumerate(found[part][:8]):
            gate = np.zeros((len(kernel), 1), "float32")
            gate[number * width : (number + 1) * width] = step
            changes = [
                loss_with(path, kernel * (1 + gate), batch)
                - loss_with(path, kernel * (1 - gate), batch)
                for batch in batches
            ]
            weights[path].assign(kernel)
            expected = np.mean(np.abs(changes)) / (2 * step)
            # The differences of float32 losses of about 5 are good to 1e-4.
            np.testing.assert_allclose(worth, expected, rtol=2e-2, atol=3e-4)


def test_what_says_nothing_goes_and_nothing_changes(trained, command, tmp_path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    copy_of(trained, old)

    def silence(weights):
        heads = weights[f"{ATTENTION}/{OUTPUT}"].numpy()
        heads[4:8] = heads[12:] = 0.0
        weights[f"{ATTENTION}/{OUTPUT}"].assign(heads)
        units = weights[f"{FEEDFORWARD}/{OUTPUT}"].numpy()
        units[[3, 30]] = 0.0
        weights[f"{FEEDFORWARD}/{OUTPUT}"].assign(units)

    change(old, silence)
    told = command(
        "prune", old, "--run", new, "--heads", 2, "--intermediate", 30, "--batches", 2
    )
    assert told["code"] == 0
    assert told["kept_heads"] == {ATTENTION: [0, 2]}
    assert told["importance_gone"] == {"heads": 0.0, "units": 0.0}
    assert told["exportable"]
    before, after = load_trained(old), load_trained(new)
    assert after.config.model.attention.num_heads == 2
    assert after.config.model.attention.head_dim == 4
    assert after.config.model.feedforward.intermediate_dim == 30
    pieces, answers = scores(before, TEXTS)
    pieces_after, answers_after = scores(after, TEXTS)
    assert pieces_after == pieces
    for expected, found in zip(answers, answers_after, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert told["parameters"] == after.model.count_params()
    assert told["parameters_before"] == before.model.count_params()


# ------------------------------------------------------------- the run


def test_the_run_that_is_made(trained, command, tmp_path) -> None:
    new = tmp_path / "small"
    words = ("prune", trained, "--run", new, "--heads", 1, "--batches", 2)
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    told = command(*words)
    assert told["code"] == 0
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before
    assert 0 < told["importance_gone"]["heads"] < 1
    assert list(told["importance_gone"]) == ["heads"]
    made = load_run(new / "run.yaml", with_model=True)
    old = load_run(trained / "training/run.yaml")
    attention = dataclasses.replace(old.model.attention, num_heads=1, head_dim=4)
    assert made.model == dataclasses.replace(old.model, attention=attention)
    assert made.tokenizer.path == str(new / "imported/tokenizer")
    assert made.training.initial_weights == str(new / "imported/weights.safetensors")
    assert made.training.init_from is None

    assert command(*words)["skipped"]
    again = command(*words, "--intermediate", 8)
    assert list(again["importance_gone"]) == ["heads", "units"]
    assert again["parameters"] < told["parameters"]
    assert (new / "run.before-import.yaml").exists()
    shelf = {path.name.partition("-")[0] for path in (new / "superseded").iterdir()}
    assert shelf >= {"imported", "training"}


@pytest.mark.thorough(
    instead="test_the_run_that_is_made, test_what_says_nothing_goes_and_nothing_changes"
)
def test_what_is_left_is_exported_taught_by_its_old_self_and_pruned_again(
    trained, command, tmp_path
) -> None:
    new = tmp_path / "small"
    told = command(
        *("prune", trained, "--run", new, "--heads", 2, "--intermediate", 16),
        *("--set", f"training.distillation={{teacher: {trained}, layers: []}}"),
        *("--set", "export.tflite=[]"),
    )
    assert told["code"] == 0
    file = new / "run.yaml"
    exported = command("export", file, "--run", new)
    assert exported["code"] == 0
    assert all(row["passed"] for row in exported["parity"])
    for stage in ("data", "train"):
        done = command(stage, file, "--run", new)
        assert done["code"] == 0
        assert not done.get("skipped")
    lines = (new / "training/metrics.jsonl").read_text().splitlines()
    assert any("loss_teacher_logits" in json.loads(line) for line in lines)
    smallest = tmp_path / "smallest"
    told = command("prune", new, "--run", smallest, "--heads", 1)
    assert told["code"] == 0
    made = load_run(smallest / "run.yaml").training
    # Its teacher still reads the same ids.
    assert made.distillation.teacher == str(trained)


# ------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing is to go"),
        (["--heads", "4"], "heads=4: model.attention.num_heads is 4"),
        (["--intermediate", "99"], "model.feedforward.intermediate_dim is 32"),
        (["--heads", "2", "--run", "{old}"], "is the run that is to be pruned"),
        (
            ["--heads", "2", "--set", "model.num_layers=2"],
            "model.num_layers: 1 there, 2 here",
        ),
        (
            ["--heads", "2", "--set", "training.distillation={{teacher: {old}}}"],
            "Write `layers: []`",
        ),
        (["--heads", "2", "--set", "training.step=2"], "Did you mean 'steps'?"),
    ],
    ids=lambda value: "",
)
def test_what_is_refused_leaves_nothing(trained, command, tmp_path, words, said):
    new, before = tmp_path / "small", sorted(trained.rglob("*"))
    words = [word.format(old=trained) for word in words]
    told = command("prune", trained, "--run", new, *words)
    assert told["code"] == 2
    assert said in told["error"]
    assert not new.exists()
    assert sorted(trained.rglob("*")) == before


def test_gradients_are_those_of_tensorflow(trained, command, tmp_path, monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    told = command("prune", trained, "--run", tmp_path / "small", "--heads", 2)
    assert told["code"] == 2
    assert told["error"].startswith("KERAS_BACKEND=jax: importance is measured with")


@eagerly
def test_heads_with_slopes_by_their_number_stay(run, command, tmp_path) -> None:
    invocation = run(*SMALL, "training.steps=1", "model.position.kind=alibi")
    train(invocation)
    old, new = invocation.run_folder, tmp_path / "small"
    told = command("prune", old, "--run", new, "--heads", 2)
    assert told["code"] == 2
    assert "kind=alibi each head has a slope by its number" in told["error"]
    assert not new.exists()
    units = command("prune", old, "--run", new, "--intermediate", 8, "--batches", 1)
    assert units["code"] == 0


def test_importance_is_measured_on_what_was_trained_on(trained, command, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    copy_of(trained, old)
    stage = old / "data/stage.json"
    record = json.loads(stage.read_text())
    record["result"]["records_sha256"] = "of others"
    stage.write_text(json.dumps(record))
    told = command("prune", old, "--run", new, "--heads", 2)
    assert told["code"] == 2
    assert "has other records than those that" in told["error"]
    shutil.rmtree(old)
    told = command("prune", old, "--run", new, "--heads", 2)
    assert "has no trained model" in told["error"]
    assert not new.exists()


@pytest.mark.parametrize("name", ["bert", "bert_masked"])
def test_what_was_imported_needs_records_and_its_head(name, command, tmp_path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    (tmp_path / "corpus.txt").write_text("\n\n".join(paragraphs(40)))
    imported = command(
        *("import", write_bert(tmp_path / "published", name), "--run", old),
        *("--set", f"data.source={{kind: text, path: {tmp_path}/corpus.txt}}"),
        *("--set", "data.validation_fraction=0.2", "--set", "data.sequence_length=32"),
    )
    assert imported["code"] == 0
    words = ("prune", old, "--run", new, "--intermediate", 3, "--batches", 1)
    told = command(*words)
    assert told["code"] == 2
    assert f"Make them: `transbeam data {old}/run.yaml --run {old}`" in told["error"]
    assert not new.exists()
    assert command("data", old / "run.yaml", "--run", old)["code"] == 0
    told = command(*words)
    if name == "bert":
        assert told["code"] == 2
        assert "has no head_dense/kernel" in told["error"]
        assert not new.exists()
    else:
        assert told["code"] == 0
        assert load_trained(new).config.model.feedforward.intermediate_dim == 3
