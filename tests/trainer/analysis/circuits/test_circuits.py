"""The part of circuits: tables of all heads, and notes on what does not apply."""

import json

import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config
from tests.model.inspect.decoders import HEADS, LAYERS, make_decoder
from tests.trainer.analysis.numbered_texts import make_context
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.block import NoFeedForwardConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.model.adaptation.quantization import quantise
from transbeam.model.build import build_model
from transbeam.model.inspect import path_expansion
from transbeam.model.inspect.circuits import (
    compute_composition_scores,
    compute_copying_scores,
    read_head_weights,
    read_vocabulary_circuit,
)
from transbeam.model.inspect.logit_attribution import attribute_logits
from transbeam.model.seq2seq import build_seq2seq
from transbeam.trainer.analysis.base.analysis_files import write_analysis
from transbeam.trainer.analysis.circuits.circuits import (
    analyze_circuits,
    compute_participation,
)


def test_every_head(randomise):
    model = make_decoder(randomise)
    part = analyze_circuits(make_context(model))
    weights = read_head_weights(model)
    circuit = read_vocabulary_circuit(model)
    rows = part.tables["heads"].to_pylist()
    assert len(rows) == LAYERS * HEADS
    for row in rows:
        heads, head = weights[row["layer"]], row["head"]
        copying = compute_copying_scores(heads, circuit)[head]
        assert row["copying_score"] == pytest.approx(copying)
        matrix = heads.value[head] @ heads.output[head]
        assert row["ov_norm"] == pytest.approx(np.linalg.norm(matrix), rel=1e-5)
        sigma = np.linalg.svd(heads.query[head] @ heads.key[head].T)[1]
        rank = compute_participation(sigma)
        assert row["qk_rank"] == pytest.approx(rank, rel=1e-4)
    assert part.tables["spectra"].num_rows == LAYERS * HEADS * 2 * 4
    assert part.notes == ()


def test_every_pair_of_heads(randomise):
    model = make_decoder(randomise)
    part = analyze_circuits(make_context(model))
    weights = read_head_weights(model)
    rows = part.tables["composition"].to_pylist()
    assert len(rows) == 3 * HEADS**2
    for row in rows:
        scores = compute_composition_scores(
            weights[row["earlier_layer"]], weights[row["later_layer"]]
        )
        score = scores[row["kind"]][row["earlier_head"], row["later_head"]]
        assert row["score"] == pytest.approx(score)
        assert row["above_baseline"] == pytest.approx(score - 12**-0.5)
    panels = part.figures["composition"].axes[:3]
    image = np.array(panels[1].images[0].get_array(), float)
    first = rows[HEADS**2 + 1]  # the second pair of K-composition
    assert (first["kind"], first["earlier_head"], first["later_head"]) == ("k", 0, 1)
    assert image[0, HEADS + 1] == pytest.approx(first["above_baseline"])
    assert np.isnan(image[HEADS:]).all()


def test_an_attributed_prediction(randomise):
    model = make_decoder(randomise)
    context = make_context(model)
    part = analyze_circuits(context, text=3)
    ids = context.texts.rows[3]["token_ids"]
    last = len(ids) - 2  # the last token ends the text
    inputs = {"token_ids": ids[None], "padding_mask": np.ones((1, len(ids)), "int32")}
    logits = np.asarray(model(inputs)["logits"])[0, last]
    second, first = np.argsort(logits)[-2:]
    numbers = part.numbers["attribution"]
    assert numbers["position"] == last
    assert (numbers["predicted"], numbers["against"]) == (f"<{first}>", f"<{second}>")
    assert numbers["difference"] == pytest.approx(
        logits[first] - logits[second], abs=1e-4
    )
    found = attribute_logits(model, inputs, [last], [first], [second])
    table = part.tables["attribution"]
    np.testing.assert_allclose(
        table["contribution"].to_numpy(), found.contributions[0], atol=1e-5
    )
    assert sum(table["contribution"].to_pylist()) == pytest.approx(
        numbers["difference"], abs=1e-4
    )
    assert table["head"].null_count == len(table) - LAYERS * HEADS


def test_a_prediction_of_an_attention_only_model_is_a_sum_over_paths(randomise):
    model = make_decoder(randomise, num_layers=2, feedforward=NoFeedForwardConfig())
    part = analyze_circuits(make_context(model), text=3)
    rows = part.tables["paths"].to_pylist()
    assert [row["path"] for row in rows[:: len(rows) - 1]] == ["direct", "biases"]
    assert len(rows) == (1 + HEADS) ** 2 + 1
    assert [row["heads"] for row in rows].count(2) == HEADS**2
    numbers = part.numbers["attribution"]
    total = sum(row["contribution"] for row in rows)
    assert total == pytest.approx(numbers["difference"], abs=1e-4)
    assert "largest terms" in part.summary
    assert "paths" in part.figures


def test_without_biases_a_last_head_is_attributed_what_its_paths_add(randomise):
    model = make_decoder(randomise, num_layers=2, feedforward=NoFeedForwardConfig())
    for weight in model.weights:
        if weight.path.endswith(("/bias", "/beta")):
            weight.assign(np.zeros(weight.shape))
    part = analyze_circuits(make_context(model))
    through = dict.fromkeys(range(HEADS), 0.0)
    for row in part.tables["paths"].to_pylist():
        layer, _, head = row["path"].rpartition(" ")[2].partition(".")
        if layer == "1":
            through[int(head)] += row["contribution"]
    attributed = {
        part["head"]: pytest.approx(part["contribution"], abs=1e-4)
        for part in part.numbers["attribution"]["parts"]
        if part["layer"] == "decoder_layer_1/self_attention"
        and part["head"] is not None
    }
    assert through == attributed
    assert part.tables["paths"]["contribution"].to_pylist()[-1] == 0


def test_too_many_paths_are_told(randomise, monkeypatch):
    monkeypatch.setattr(path_expansion, "MOST_PATHS", 3)
    model = make_decoder(randomise, num_layers=2, feedforward=NoFeedForwardConfig())
    part = analyze_circuits(make_context(model))
    assert "paths" not in part.tables
    assert [note.partition(":")[0] for note in part.notes] == ["No paths"]


def test_files(randomise, tmp_path):
    part = analyze_circuits(make_context(make_decoder(randomise, embedding_dim=5)))
    facts = {"run": "small", "weights_fingerprint": "a"}
    write_analysis(tmp_path / "a", part, "6 of validation", facts)
    assert len(json.loads((tmp_path / "a/circuits.json").read_text())["heads"]) == 6
    for name in ("copying", "composition", "attribution"):
        assert (tmp_path / f"a/circuits_{name}.png").is_file()


def test_a_single_layer_has_no_composition(randomise):
    part = analyze_circuits(make_context(make_decoder(randomise, num_layers=1)))
    assert "composition" not in part.tables
    assert "attribution" in part.tables


def test_encoder(randomise):
    model = build_model(small_config(num_segments=0), MaskedConfig(), VOCABULARY_SIZE)
    part = analyze_circuits(make_context(randomise(model)))
    assert part.tables["heads"]["copying_score"].null_count == 4
    assert "composition" in part.figures
    assert [note.partition(":")[0] for note in part.notes] == [
        "No copying scores",
        "No attribution",
    ]


def test_encoder_decoder(randomise):
    config = Seq2SeqModelConfig(num_layers=2, hidden_dim=16, max_sequence_length=8)
    model = randomise(build_seq2seq(config, VOCABULARY_SIZE))
    context = make_context(model, names=("encoder_token_ids", "decoder_token_ids"))
    part = analyze_circuits(context)
    assert {"encoder_composition", "decoder_composition"} <= set(part.figures)
    rows = part.tables["heads"].to_pylist()
    copies = {row["layer"][:7] for row in rows if row["copying_score"] is not None}
    assert copies == {"decoder"}
    assert "two residual streams" in part.notes[0]


def test_quantized_models(randomise):
    model = make_decoder(randomise)
    quantise(model, "int8")
    part = analyze_circuits(make_context(model))
    assert part.summary == "Does not apply."
    assert part.notes[0].startswith("No circuits: ")
    assert "is quantized" in part.notes[0]


@pytest.mark.parametrize("position", [-1, 3])
def test_unknown_position(randomise, position):
    part = analyze_circuits(make_context(make_decoder(randomise)), position=position)
    assert f"position={position}: text 0 has 3 tokens" in part.notes[0]


def test_unknown_text(randomise):
    with pytest.raises(ConfigError, match="text=6: there are 6 texts"):
        analyze_circuits(make_context(make_decoder(randomise)), text=6)
