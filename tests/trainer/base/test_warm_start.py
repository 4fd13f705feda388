"""A training that begins with what another run learned."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.harness.stages import copy_of
from tests.trainer.conftest import eagerly
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.compatibility import model_differences
from transbeam.configs.loader.model_files import find_model_weights
from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.weights.assign import variables_by_path
from transbeam.pipeline.records.manifest import read_manifest
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.warm_start import Origin, begin, find_origin
from transbeam.trainer.base.weight_files import load_weights
from transbeam.trainer.evaluation.evaluation_loop import EvaluationMetrics
from transbeam.trainer.loop.checkpoint import best_checkpoint
from transbeam.trainer.run import train


@pytest.fixture
def trained(small_trained: Path, tmp_path: Path) -> Path:
    """The folder of a run with a trained model, to be changed."""
    return copy_of(small_trained, tmp_path / "trained")


def values(model) -> dict[str, np.ndarray]:
    return {path: weight.numpy() for path, weight in variables_by_path(model).items()}


def begun(invocation: Invocation, **changes):
    config = dataclasses.replace(invocation.config, **changes)
    manifest = read_manifest(invocation.run_folder / "data")
    model = build_trainable(config, manifest.vocabulary["size"])
    told = begin(model, config, manifest)
    assert told is not None
    return values(model), told


def test_takes_the_body_and_makes_a_new_head(run, trained) -> None:
    objective = ClassificationConfig(labels=("calm", "cross"))
    found, (source, new) = begun(
        run(f"training.init_from={trained}", "model.dropout=0.3"), objective=objective
    )
    assert source == str(trained / "training/model.weights.h5")
    assert set(new) == {"classifier/kernel", "classifier/bias"}
    expected = find_origin(trained).values()
    for path in found.keys() - set(new):
        np.testing.assert_array_equal(found[path], expected[path], err_msg=path)
    assert any(path.startswith("head_") for path in expected.keys() - found.keys())


def test_a_head_for_other_labels_is_new(run, trained, monkeypatch) -> None:
    labels = ("calm", "cross")
    there = dataclasses.replace(
        run().config, objective=ClassificationConfig(labels=labels)
    )
    weights = values(build_trainable(there, 120))
    origin = dataclasses.replace(find_origin(trained), config=there)
    monkeypatch.setattr(
        "transbeam.trainer.base.warm_start.find_origin", lambda folder: origin
    )
    monkeypatch.setattr(Origin, "values", lambda self: weights)
    head = {"classifier/kernel", "classifier/bias"}
    for other, new in (
        (ClassificationConfig(labels=labels), set()),
        (ClassificationConfig(labels=labels[::-1]), head),
        (ClassificationConfig(labels=(*labels, "mild")), head),
    ):
        invocation = run(f"training.init_from={trained}")
        found, (_, told) = begun(invocation, objective=other)
        assert set(told) == new
        for path in found.keys() - new:
            np.testing.assert_array_equal(found[path], weights[path], err_msg=path)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("model.position={kind: learned}", ["max_sequence_length: 32 there, 64 here"]),
        ("model.position={kind: sinusoidal}", []),
        (
            "model.attention={kind: low_rank, num_heads: 2, rank: 8}",
            ["max_sequence_length: 32 there, 64 here"],
        ),
    ],
)
def test_the_longest_input_may_differ_where_places_have_no_weights(
    run, key, told
) -> None:
    sinusoidal = "model.position={kind: sinusoidal}"
    there = run(sinusoidal, key).config
    here = run(sinusoidal, key, "model.max_sequence_length=64").config
    assert model_differences(there, here) == [f"model.{line}" for line in told]


def test_another_model_is_refused_by_its_keys(run, trained) -> None:
    other = run(
        f"training.init_from={trained}",
        "model.num_layers=2",
        "model.feedforward.activation=relu",  # of the same shapes
    )
    with pytest.raises(ArtifactError, match=r"activation: gelu there, relu here"):
        begun(other)
    with pytest.raises(ArtifactError, match=r"model\.num_layers: 1 there, 2 here"):
        begun(other)


def test_another_tokenizer_is_refused(run, trained) -> None:
    path = trained / "data/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["vocabulary"]["fingerprint"] = "f" * 64
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=r"another tokenizer.*data/tokenizer"):
        begun(run(f"training.init_from={trained}"))


def test_a_run_without_a_model_is_refused(run, tmp_path) -> None:
    with pytest.raises(ArtifactError, match="has no trained model"):
        begun(run(f"training.init_from={tmp_path}"))
    with pytest.raises(ConfigError, match="begins once"):
        TrainingConfig(steps=1, init_from="a", initial_weights="b")


def test_its_own_folder_is_refused_and_nothing_is_moved(run, trained) -> None:
    again = run(f"training.init_from={trained}", folder="trained")
    with pytest.raises(ArtifactError, match="folder of this run itself"):
        train(again)
    with pytest.raises(ArtifactError, match="has no trained model"):
        train(run("training.init_from=runs/nowhere", folder="trained"))
    assert find_model_weights(trained).is_file()


def test_features_that_are_drawn_by_the_seed_are_no_weights(run) -> None:
    kernel = "model.attention={kind: kernel, num_heads: 2, feature_map: FEATURES}"
    for features, told in (("relu", ["seed: 3 there, 4 here"]), ("elu", [])):
        key = kernel.replace("FEATURES", features)
        one, other = (run(key, f"seed={seed}").config for seed in (3, 4))
        assert model_differences(one, other) == told


def test_weights_that_are_not_finite_are_refused(run, trained) -> None:
    config = run().config
    model = build_trainable(config, 120)
    load_weights(model, find_model_weights(trained))
    table = variables_by_path(model)["token_embedding/embeddings"]
    table.assign(np.full(table.shape, np.nan))
    model.save_weights(find_model_weights(trained))
    with pytest.raises(ArtifactError, match="embeddings is not finite"):
        begun(run(f"training.init_from={trained}"))


@eagerly
def test_trains_on_from_there_and_needs_it_no_more(run, trained, capsys) -> None:
    # So small a step that it stays where it began.
    schedule = "training.schedule={peak: 1e-9, warmup_steps: 0}"
    keys = (schedule, "training.steps=1")
    first = train(run(f"training.init_from={trained}", *keys))
    model = build_trainable(run().config, 120)
    load_weights(model, find_model_weights(run().run_folder))
    for path, value in find_origin(trained).values().items():
        np.testing.assert_allclose(values(model)[path], value, atol=1e-6)

    elsewhere = trained.rename(trained.with_name("elsewhere"))
    again = run(f"training.init_from={elsewhere}", *keys)
    assert train(again) == {**first, "skipped": True}
    assert "warning" not in capsys.readouterr().err
    shutil.rmtree(elsewhere)
    assert train(again) == {**first, "skipped": True}
    # It may be a slip of the pen as well.
    assert f"warning: {elsewhere}/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "metric", "step"),
    [([], "loss", 2), (["training.best_metric=macro_f1"], "macro_f1", 1)],
)
@eagerly
def test_ends_with_the_best_weights(run, monkeypatch, keys, metric, step) -> None:
    validations = [(5.0, 0.9), (1.0, 0.7), (3.0, 0.8)]
    if keys:
        validations.insert(0, (9.0, 0.0))  # read for its names, before the first step
    left = iter(validations)

    def validate(*_) -> EvaluationMetrics:
        loss, score = next(left)
        return EvaluationMetrics(loss, 0.0, {}, scores={"macro_f1": score})

    monkeypatch.setattr("transbeam.trainer.run.validate", validate)
    invocation = run(
        "training.final_weights=best",
        "training.evaluate_every=1",
        "training.steps=3",
        *keys,
    )
    train(invocation)
    folder = invocation.run_folder / "training"
    best = folder / f"checkpoints/step-0000000{step}"
    assert best_checkpoint(best.parent, metric) == best
    model = build_trainable(invocation.config, 120)
    load_weights(model, find_model_weights(invocation.run_folder))
    state = load_file(best / "state.safetensors")
    kept = [state[name] for name in sorted(state) if name.startswith("model/")]
    found = [weight for weight in model.get_weights() if weight.dtype == np.float32]
    kept = [value for value in kept if value.dtype == np.float32]
    for one, other in zip(found, kept, strict=True):
        np.testing.assert_array_equal(one, other)


@eagerly
def test_an_unknown_metric_ends_the_training_before_it_begins(run, monkeypatch) -> None:
    train(run("training.steps=1"))
    before = run().run_folder / "training/model.weights.h5"
    content = before.read_bytes()
    invocation = run("training.final_weights=best", "training.best_metric=f2")
    with pytest.raises(ConfigError, match=r"f2: no metric .* accuracy, loss"):
        train(invocation)
    assert before.read_bytes() == content
