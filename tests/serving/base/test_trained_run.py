"""A trained model is loaded whole or refused by name."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from tests.configs.loader.test_export_support import IMAGES
from tests.serving.conftest import RECORDS_SHA256, TINY, make_run
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.warmup import settle_warmup
from transbeam.configs.loader.yaml_config import flatten, parse_run
from transbeam.configs.schema.attention import KernelAttentionConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import ConstantScheduleConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.model.build import build_model
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    read_tokenizer,
    save_tokenizer,
)
from transbeam.serving.base.trained_run import load_trained, training_record

WEIGHTS = "training/model.weights.h5"


@pytest.fixture
def run(run_folder, tmp_path):
    """A copy of the run to spoil."""
    for name in ("data", "training"):
        shutil.copytree(run_folder / name, tmp_path / name)
    return tmp_path


def test_weights_of_the_packed_graph_are_in_the_model(trained, run_folder):
    with h5py.File(run_folder / WEIGHTS) as file:
        names = {
            group["vars"].attrs["name"]: group for group in file["layers"].values()
        }
        for name in ("token_embedding", "head_bias", "embeddings_norm"):
            for number, weight in enumerate(trained.model.get_layer(name).weights):
                found = names[name]["vars"][str(number)]
                np.testing.assert_array_equal(found, keras.ops.convert_to_numpy(weight))
    assert {weight.dtype for weight in trained.model.weights} == {"float32"}
    assert trained.model.compute_dtype == "float32"
    assert trained.config == TINY


def test_random_features_are_those_of_the_training(tmp_path):
    # They come from the seed and are not weights: no file would show the mistake.
    model = replace(TINY.model, attention=KernelAttentionConfig(num_heads=2))
    config = replace(TINY, seed=17, model=model)
    loaded = load_trained(make_run(tmp_path / "run", config), config)
    size = loaded.tokenizer.vocabulary_size
    as_trained = build_model(model, config.objective, size, packed=True, seed=17)
    here, there = (
        model.get_layer("encoder_layer_1").self_attention.random_features
        for model in (loaded.model, as_trained)
    )
    np.testing.assert_array_equal(here, there)


def test_missing_weights(run):
    (run / WEIGHTS).unlink()
    with pytest.raises(ArtifactError, match=r"model\.weights\.h5: there is no such"):
        load_trained(run)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_truncated_weights(run, kept):
    content = (run / WEIGHTS).read_bytes()
    (run / WEIGHTS).write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ArtifactError, match="cut off or damaged"):
        load_trained(run)


def test_something_else_in_place_of_weights(run):
    with h5py.File(run / WEIGHTS, "w") as file:
        file["other"] = [1.0]
    with pytest.raises(ArtifactError, match="not a complete file of Keras weights"):
        load_trained(run)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weights_are_named(run, value):
    with h5py.File(run / WEIGHTS, "r+") as file:
        file["layers/transformer_block_1/self_attention/query/vars/0"][3, 4] = value
    name = "encoder_layer_1/self_attention/query/kernel has 1 of 1,024 numbers"
    with pytest.raises(ArtifactError, match=name):
        load_trained(run)


@pytest.mark.parametrize(
    ("keys", "difference"),
    [
        ({"num_layers": 1}, r"encoder_layer_1: \(32,\), .* there, nothing expected"),
        ({"num_layers": 3}, r"encoder_layer_2: nothing there, \(32,\), .* expected"),
        (
            {"max_sequence_length": 40},
            r"position_embedding: \(32, 32\) there, \(40, 32\) expected",
        ),
    ],
)
def test_weights_of_another_model_are_told_apart_by_layer(
    run, monkeypatch, keys, difference
):
    # The stage's record would tell before; here only the weights do.
    monkeypatch.setattr(
        "transbeam.serving.base.trained_run.training_record", lambda *_: None
    )
    config = replace(TINY, model=replace(TINY.model, **keys))
    with pytest.raises(ArtifactError, match=difference):
        load_trained(run, config)


def test_images_that_have_no_signatures_yet(run):
    with pytest.raises(ConfigError, match=r"objective\.channels=4: this version"):
        load_trained(run, parse_run(IMAGES, "f"))


def test_another_configuration_than_the_trained_one(run):
    config = replace(TINY, model=replace(TINY.model, num_layers=3))
    with pytest.raises(ArtifactError, match=r"model\.num_layers: 2 there, 3 here"):
        load_trained(run, config)


def test_export_keys_do_not_matter_to_the_trained_model(run):
    config = replace(TINY, export=replace(TINY.export, top_k=7))
    assert load_trained(run, config).config.export.top_k == 7


def test_other_records_than_the_trained_ones(run):
    record = run / "data/stage.json"
    content = record.read_text()
    assert content.count(RECORDS_SHA256) == 1
    record.write_text(content.replace(RECORDS_SHA256, "6" * 64))
    with pytest.raises(ArtifactError, match=r'records: "5+" there, "6+" here'):
        load_trained(run)


def test_another_tokenizer_than_that_of_the_records(run):
    folder = run / "data/tokenizer"
    model = read_tokenizer(folder).model
    *others, one, two = model.pieces
    save_tokenizer(folder, replace(model, pieces=(*others, two, one)))
    with pytest.raises(ArtifactError, match="not the tokenizer the records were made"):
        load_trained(run)


def test_an_unfinished_training(run):
    (run / "training/stage.json").rename(run / "training/unfinished.json")
    with pytest.raises(
        ArtifactError, match=r"started and not finished.*transbeam train"
    ):
        load_trained(run)


def test_no_training_at_all(run):
    shutil.rmtree(run / "training")
    with pytest.raises(ArtifactError, match="transbeam train"):
        load_trained(run)


def test_a_warm_up_that_is_left_out_is_what_it_was_in_the_training(tmp_path):
    def config(steps: int, **schedule: int) -> RunConfig:
        constant = ConstantScheduleConfig(**schedule)
        return replace(TINY, training=TrainingConfig(steps=steps, schedule=constant))

    def finish(name: str, inputs: Mapping[str, Any]) -> None:
        stage = Stage(tmp_path, name, f"transbeam {name}")
        stage.begin(inputs)
        stage.finish(inputs, {"records_sha256": RECORDS_SHA256})

    finish("data", {})
    fewer = flatten(settle_warmup(config(50)), "seed", "model", "training")
    finish("training", {**fewer, "records": RECORDS_SHA256})
    assert training_record(tmp_path, config(50))
    with pytest.raises(ArtifactError, match="warmup_steps: 5 there, 8 here"):
        training_record(tmp_path, config(50, warmup_steps=8))
    # It went on to more steps, of which a tenth would be another number.
    finish("training", {**fewer, "training.steps": 80, "records": RECORDS_SHA256})
    assert training_record(tmp_path, config(80))
