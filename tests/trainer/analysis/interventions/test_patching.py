"""Patching between two texts, from their words to tables of effects."""

from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.analysis.interventions.conftest import HEADS, LAYERS
from transbeam.configs.base.errors import ConfigError, DataError
from transbeam.configs.schema.block import NoFeedForwardConfig
from transbeam.configs.schema.model import DecoderConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.supervised import ClassificationConfig
from transbeam.model.build import build_model
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
)
from transbeam.trainer.analysis.interventions.patching import analyze_patching

ANSWERS = {"right": "loss", "wrong": "model"}


@pytest.fixture(scope="module")
def decoder(masked) -> AnalysisContext:
    """An attention-only decoder with the same tokenizer."""
    config = DecoderConfig(
        num_layers=LAYERS,
        hidden_dim=16,
        max_sequence_length=16,
        attention=masked.config.model.attention,
        feedforward=NoFeedForwardConfig(),
    )
    run = replace(masked.config, model=config, objective=CausalConfig())
    model = build_model(config, CausalConfig(), 120, dtype="float32")
    return replace(masked, config=run, model=model)


def table_of_effects(part, layer: str, activation: str) -> list[float]:
    rows = part.tables["positions"].to_pylist()
    return [
        row["effect"]
        for row in rows
        if (row["layer"], row["activation"]) == (layer, activation)
    ]


def test_a_mask(masked):
    part = analyze_patching(
        masked,
        clean="the model reads the [MASK]",
        corrupted="the loss reads the [MASK]",
        **ANSWERS,
    )
    last = table_of_effects(part, "encoder_layer_1", "block")
    # [CLS] the model reads the [MASK] [SEP]: the mask is at position 5.
    np.testing.assert_allclose(last, [0, 0, 0, 0, 0, 1, 0], atol=1e-3)
    (row,) = part.tables["positions"].slice(2, 1).to_pylist()
    assert (row["position"], row["clean_piece"], row["corrupted_piece"]) == (
        2,
        "model",
        "loss",
    )
    heads = part.tables["heads"].to_pylist()
    assert [(row["layer"], row["head"]) for row in heads] == [
        (f"encoder_layer_{layer}/self_attention", head)
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]
    assert part.figures.keys() == {"block", "self_attention", "feedforward", "heads"}
    numbers = part.numbers
    assert numbers["clean_difference"] != numbers["corrupted_difference"]


def test_the_next_token(decoder):
    """A decoder reads its text without an end token; nothing before it differs."""
    part = analyze_patching(
        decoder,
        clean="the model reads",
        corrupted="the loss reads",
        **ANSWERS,
    )
    positions = part.tables["positions"].column("clean_piece").to_pylist()
    assert positions[-1] == "reads"
    last = table_of_effects(part, "decoder_layer_1", "block")
    np.testing.assert_allclose(last[-1], 1.0, atol=1e-3)
    np.testing.assert_allclose(last[:-1], 0.0, atol=1e-3)
    # Attention-only models have no such sub-layer.
    assert set(part.tables["positions"].column("activation").to_pylist()) == {
        "block",
        "self_attention",
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clean": "the model reads"}, r"has 0 masks; expected one token \[MASK\]"),
        ({"clean": "the [MASK] [MASK]"}, "has 2 masks"),
        ({"clean": "model [MASK]"}, r"clean text has 4 tokens \(\[CLS\] model"),
        ({"right": "modelloss"}, "'modelloss': is model"),
        ({"wrong": ""}, "'': is nothing to the tokenizer"),
        ({"wrong": "\u2603"}, "must be a single token that it knows"),
        ({"corrupted": "the " * 40 + "[MASK]"}, "has 43 tokens; expected 1 to 32"),
        (
            {"corrupted": "the model reads [MASK]"},
            "there is nothing to restore. Give texts with different",
        ),
    ],
)
def test_texts_and_answers_that_are_refused(masked, changes, said):
    texts = {"clean": "the model reads [MASK]", "corrupted": "the loss reads [MASK]"}
    with pytest.raises(DataError, match=said):
        analyze_patching(masked, **{**texts, **ANSWERS, **changes})


def test_a_model_that_predicts_no_token(masked):
    objective = ClassificationConfig(labels=("a", "b"))
    model = build_model(masked.config.model, objective, 120)
    run = replace(masked.config, objective=objective)
    with pytest.raises(ConfigError, match=r"objective.kind=classification predicts no"):
        analyze_patching(
            replace(masked, config=run, model=model),
            clean="a",
            corrupted="b",
            **ANSWERS,
        )
