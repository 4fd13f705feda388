"""The part of lenses: complete for each family, and a reason where it cannot be."""

import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import make_decoder
from tests.trainer.analysis.numbered_texts import make_context
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.build import build_model
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.logit_lens import apply_logit_lens
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.safetensors_store import read_weights
from transbeam.trainer.analysis.base.analysis_files import write_analysis
from transbeam.trainer.analysis.lenses.lens import analyze_lens
from transbeam.trainer.analysis.lenses.tuned_lens import TunedLens

# Tracing takes longer than the steps of a small model.
pytestmark = pytest.mark.usefixtures("no_graphs")


def test_every_number_of_a_text(randomise):
    model = make_decoder(randomise)
    context = make_context(model)
    part = analyze_lens(context, tuned=False, text=2)
    ids = context.texts.rows[2]["token_ids"][None]
    expected = apply_logit_lens(model, {"token_ids": ids, "padding_mask": ids * 0 + 1})
    rows = part.tables["predictions"].to_pylist()
    assert len(rows) == 3 * ids.shape[1]
    for row in rows:
        cell = (row["depth"], 0, row["position"])
        assert row["layer"] == expected.layers[row["depth"]]
        assert row["token"] == f"<{ids[0, row['position']]}>"
        assert row["predicted"] == [f"<{index}>" for index in expected.top_ids[cell]]
        assert row["target"] == f"<{expected.top_ids[-1, 0, row['position'], 0]}>"
        assert row["target_rank"] == expected.target_ranks[cell]
        assert row["divergence"] == pytest.approx(expected.divergences[cell], abs=1e-5)
        assert row["probability"] == pytest.approx(
            expected.top_probabilities[cell].tolist(), rel=1e-4
        )
    assert sorted(part.figures) == ["divergence", "predictions"]
    labels = [text.get_text() for text in part.figures["predictions"].axes[0].texts]
    assert labels[: ids.shape[1]] == [f"<{i}>" for i in expected.top_ids[0, 0, :, 0]]
    assert part.weights == {}


def test_a_tuned_lens(randomise, tmp_path):
    context = make_context(make_decoder(randomise), texts=10)
    part = analyze_lens(context, steps=12)
    table = part.tables["layers"].to_pylist()
    assert [row["layer"] for row in table] == [
        "embeddings",
        "decoder_layer_0",
        "decoder_layer_1",
    ]
    for row in table:
        worse = row["tuned_lens_divergence"] - row["logit_lens_divergence"]
        assert worse <= 1e-5
    assert "for the tuned lens" in part.summary
    folder = tmp_path / "analysis"
    facts = {"run": "small", "weights_fingerprint": "a"}
    write_analysis(folder, part, "10 of validation", facts)
    weights = read_weights(folder / "lens_tuned.safetensors")
    assert weights["decoder_layer_0/translator/kernel"].shape == (12, 12)
    assert "decoder_layer_1/translator/kernel" not in weights


def test_a_worse_lens_is_not_kept(randomise, monkeypatch):
    """Translators that were made worse are identities in the part, which says so."""

    def spoil(model, batches, **options):
        tuned = TunedLens(model)
        tuned.kernels[1].assign(-2 * np.eye(12))  # reverses the hidden states
        return tuned, options["steps"]

    monkeypatch.setattr(
        "transbeam.trainer.analysis.lenses.lens.train_tuned_lens", spoil
    )
    part = analyze_lens(make_context(make_decoder(randomise)), steps=2)
    assert any("made equal to it, at: decoder_layer_0." in note for note in part.notes)
    assert not part.weights["tuned"]["decoder_layer_0/translator/kernel"].any()
    for row in part.tables["layers"].to_pylist():
        assert row["tuned_lens_divergence"] == row["logit_lens_divergence"]


def test_one_text(randomise):
    part = analyze_lens(make_context(make_decoder(randomise), texts=1))
    assert any("there is one text only" in note for note in part.notes)
    assert part.weights == {}


def test_time_that_is_over(randomise):
    context = make_context(make_decoder(randomise))
    part = analyze_lens(context, steps=10**6, seconds=0.3)
    assert any("of 1000000 steps" in note for note in part.notes)


def test_masked_tokens(randomise):
    config = small_config(num_segments=0)
    model = randomise(build_model(config, MaskedConfig(), VOCABULARY_SIZE))
    part = analyze_lens(make_context(model), steps=2)
    rows = part.tables["predictions"].to_pylist()
    assert [row["token"] for row in rows] == ["<4>"] * 3
    assert part.numbers["predictions"] == 2  # held-out texts, one token in each


def test_encoder_decoder(randomise):
    config = Seq2SeqModelConfig(num_layers=1, hidden_dim=16, max_sequence_length=8)
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    context = make_context(model, names=("encoder_token_ids", "decoder_token_ids"))
    part = analyze_lens(context, steps=2)
    assert part.tables["layers"]["layer"].to_pylist() == [
        "decoder_embeddings",
        "decoder_layer_0",
    ]


def test_models_without_logits():
    part = analyze_lens(make_context(build_encoder(small_config(), VOCABULARY_SIZE)))
    assert part.summary == "Does not apply."
    assert "no logits over its vocabulary" in part.notes[0]


@pytest.mark.parametrize("text", [-1, 6])
def test_unknown_text(randomise, text):
    with pytest.raises(ConfigError, match=f"text={text}: there are 6 texts"):
        analyze_lens(make_context(make_decoder(randomise)), text=text)
