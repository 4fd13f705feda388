"""Hidden states of words: encoder-decoders, and models that read no text."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.analysis.contexts import make_context
from tests.trainer.analysis.random_texts import PIECES
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import (
    EncoderConfig,
    PatchesConfig,
    Seq2SeqModelConfig,
)
from transbeam.model.inspect.hidden_states import with_hidden_states
from transbeam.trainer.analysis.base.analysis_context import (
    AnalysisContext,
    AnalyzedTexts,
)
from transbeam.trainer.analysis.neurons.neurons import analyze_neurons
from transbeam.trainer.analysis.probes.probes import analyze_probes
from transbeam.trainer.analysis.vectors.layer_states import list_layers
from transbeam.trainer.analysis.vectors.occurrences import (
    Occurrence,
    collect_occurrences,
)
from transbeam.trainer.analysis.vectors.vectors import analyze_vectors


@pytest.fixture(scope="module")
def seq2seq() -> AnalysisContext:
    """Texts of another length on each side."""
    config = Seq2SeqModelConfig(num_layers=2, hidden_dim=16, max_sequence_length=20)
    generator = np.random.default_rng(3)

    def draw(length: int) -> np.ndarray:
        return generator.integers(10, len(PIECES), length).astype(np.int32)

    rows = tuple(
        {"encoder_token_ids": draw(length), "decoder_token_ids": draw(12 - length)}
        for length in (4, 9, 6, 8) * 7
    )
    return make_context(config, AnalyzedTexts("texts", rows), pieces=PIECES)


def test_states_of_an_encoder_decoder_are_the_encoders(seq2seq):
    place = Occurrence(1, 7, 9)
    layers, states = collect_occurrences(seq2seq, [place], "states")
    assert layers == ("encoder_embeddings", "encoder_layer_0", "encoder_layer_1")
    inputs = {name: x[None] for name, x in seq2seq.texts.rows[1].items()}
    for side in ("encoder", "decoder"):
        ones = np.ones_like(inputs[f"{side}_token_ids"])
        inputs[f"{side}_padding_mask"] = ones
    outputs = with_hidden_states(seq2seq.model)(inputs)
    for layer, (vector,) in zip(layers, states, strict=True):
        expected = outputs[layer].numpy()[0, 7:9].mean(axis=0)
        np.testing.assert_allclose(vector, expected, atol=1e-4)


def test_parts_of_an_encoder_decoder(seq2seq, monkeypatch):
    module = "transbeam.trainer.analysis.probes.probe_training"
    monkeypatch.setattr(f"{module}._ROUNDS", 2)
    probes = analyze_probes(seq2seq)
    assert list(probes.numbers) == ["text_length"]
    vectors = analyze_vectors(seq2seq)
    assert vectors.tables["geometry"]["layer"][0].as_py() == "encoder_embeddings"
    units = analyze_neurons(seq2seq, top=2).tables
    layers = {row["layer"]: row for row in units["layers"].to_pylist()}
    assert len(layers) == 4
    assert layers["encoder_layer_1/feedforward"]["agreement"] is None
    assert layers["decoder_layer_1/feedforward"]["agreement"] is not None
    for row in units["triggers"].to_pylist():
        side = row["layer"].partition("_")[0]
        ids = seq2seq.texts.rows[row["text"]][f"{side}_token_ids"]
        assert row["token"] == PIECES[ids[row["position"]]]


def test_a_decoder_without_ordinary_tokens(seq2seq):
    """Its layers have no numbers; they are not NaN in JSON."""
    rows = tuple(
        {**row, "decoder_token_ids": np.array([2], np.int32)}
        for row in seq2seq.texts.rows[:3]
    )
    context = replace(seq2seq, texts=replace(seq2seq.texts, rows=rows))
    part = analyze_neurons(context, top=2)
    json.dumps(dict(part.numbers), allow_nan=False)
    assert len(part.numbers) == 2
    last = part.tables["layers"].to_pylist()[-1]
    assert last["active"] is None
    assert last["agreement"] is None
    assert last["agreement_baseline"] is None
    assert "nan" not in part.summary


@pytest.mark.parametrize("analyze", [analyze_probes, analyze_vectors, analyze_neurons])
def test_models_of_images(analyze):
    patches = PatchesConfig(image_size=8, patch_size=4, num_channels=1)
    model = EncoderConfig(num_layers=1, hidden_dim=8, patches=patches)
    context = make_context(model, pieces=PIECES)
    part = analyze(context)
    assert part.summary == "Does not apply."
    assert "images" in part.notes[0]
    with pytest.raises(ConfigError, match="reads images"):
        list_layers(context.model)
