"""The objective of a head is read from what the checkpoint says of its labels."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.model.weights.conftest import built
from tests.model.weights.hugging_face_checkpoints import CASES, ONE_LABEL
from tests.model.weights.inputs import source_ids, source_mask
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.schema.model import PoolerConfig
from transbeam.configs.schema.objectives.supervised import (
    MultiLabelClassificationConfig,
)
from transbeam.model.build import build_model
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.checkpoint_export import export_checkpoint
from transbeam.model.weights.checkpoint_import import read_checkpoint

# The layer that gives the scores, by the family.
SCORES = {
    "bert": "classifier",
    "distilbert": "classifier",
    "roberta": "classifier.out_proj",
}


def write_estimator(folder: Path, family: str, **changed: object) -> Path:
    """The classifier of a family with the first of its classes alone."""
    CASES[f"{family}_classifier"].write(folder, **ONE_LABEL, **changed)
    tensors = load_file(folder / "model.safetensors")
    for part in ("weight", "bias"):
        name = f"{SCORES[family]}.{part}"
        tensors[name] = tensors[name][:1]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def answer(folder: Path, family: str, output: str) -> np.ndarray:
    model = built(read_checkpoint(folder))
    inputs = {"token_ids": source_ids(family), "padding_mask": source_mask()}
    if "segment_ids" in model.input:
        inputs["segment_ids"] = np.zeros_like(inputs["token_ids"])
    return np.asarray(model(inputs)[output])


@pytest.mark.parametrize("family", sorted(SCORES))
def test_one_label_is_a_number(tmp_path, family):
    CASES[f"{family}_classifier"].write(tmp_path / "three")
    folder = write_estimator(tmp_path / "one", family)
    assert read_checkpoint(folder).objective.kind == "regression"
    logits = answer(tmp_path / "three", family, "logits")
    score = answer(folder, family, "score")
    np.testing.assert_allclose(score, logits[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", sorted(SCORES))
def test_a_number_is_written_as_one_label(tmp_path, family):
    folder = write_estimator(tmp_path / "theirs", family)
    checkpoint = read_checkpoint(folder)
    weights = variables_by_path(built(checkpoint))
    again = export_checkpoint(weights, checkpoint.description, tmp_path / "ours")
    assert again == family
    written = json.loads((tmp_path / "ours/config.json").read_text())
    assert written["id2label"] == {"0": "LABEL_0"}
    theirs = load_file(folder / "model.safetensors")
    ours = load_file(tmp_path / "ours/model.safetensors")
    for part in ("weight", "bias"):
        name = f"{SCORES[family]}.{part}"
        np.testing.assert_array_equal(ours[name], theirs[name])


@pytest.mark.parametrize(
    "told",
    [
        {"sentence_transformers": {"version": "4.1.0"}},
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    ],
)
def test_a_cross_encoder_reads_pairs(tmp_path, told):
    folder = write_estimator(tmp_path / "one", "bert", **told)
    assert read_checkpoint(folder).objective.kind == "pair_regression"
    folder = CASES["bert_classifier"].write(tmp_path / "three", **told)
    assert read_checkpoint(folder).objective.kind == "pair_classification"


@pytest.mark.parametrize("name", ["bert_classifier", "gpt2_classifier"])
def test_any_number_of_labels_are_read_and_written(tmp_path, name):
    told = {"problem_type": "multi_label_classification"}
    checkpoint = read_checkpoint(CASES[name].write(tmp_path / "theirs", **told))
    assert checkpoint.objective == MultiLabelClassificationConfig(
        labels=("bad", "so-so", "good")
    )
    weights = variables_by_path(built(checkpoint))
    export_checkpoint(weights, checkpoint.description, tmp_path / "ours")
    written = json.loads((tmp_path / "ours/config.json").read_text())
    assert written["problem_type"] == told["problem_type"]


def test_a_separator_is_in_no_label(tmp_path):
    told = {
        "problem_type": "multi_label_classification",
        "id2label": {"0": "a, b", "1": "c|d", "2": "e"},
    }
    checkpoint = read_checkpoint(CASES["gpt2_classifier"].write(tmp_path, **told))
    assert checkpoint.objective.separator == ";"


@pytest.mark.parametrize(
    ("pooler", "told"),
    [
        (PoolerConfig(kind="mean"), "pooler.kind is 'mean'"),
        (PoolerConfig(kind="end_token"), "pooler.kind is 'end_token'"),
        (PoolerConfig(kind="last", projection=True), "has no name for these weights"),
    ],
)
def test_their_heads_on_decoders_read_the_last_token_alone(tmp_path, pooler, told):
    checkpoint = read_checkpoint(CASES["gpt2_classifier"].write(tmp_path / "theirs"))
    config = replace(checkpoint.config, pooler=pooler)
    model = build_model(config, checkpoint.objective, checkpoint.vocabulary_size)
    description = replace(checkpoint.description, config=config)
    with pytest.raises(ArtifactError, match=re.escape(told)):
        export_checkpoint(variables_by_path(model), description, tmp_path)


def test_a_decoders_default_is_the_last_token(tmp_path):
    checkpoint = read_checkpoint(CASES["gpt2_classifier"].write(tmp_path / "theirs"))
    config = replace(checkpoint.config, pooler=PoolerConfig(kind="last"))
    weights = variables_by_path(built(checkpoint))
    description = replace(checkpoint.description, config=config)
    assert export_checkpoint(weights, description, tmp_path / "ours") == "gpt2"


def test_one_label_that_each_text_has_or_not_is_refused(tmp_path):
    told = {"problem_type": "multi_label_classification"}
    folder = write_estimator(tmp_path, "bert", **told)
    with pytest.raises(ArtifactError, match="problem_type is 'multi_label"):
        read_checkpoint(folder)
