"""The part `neurons`: triggers, favored tokens, agreement, choice of units."""

import json

import numpy as np
import pytest

from tests.trainer.analysis.random_texts import (
    make_decoder_context,
    make_encoder_context,
    make_inputs,
    with_texts,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.neurons import TopTexts, ValueTokens
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext
from transbeam.trainer.analysis.neurons.neurons import analyze_neurons
from transbeam.trainer.analysis.neurons.unit_agreement import measure_agreement
from transbeam.trainer.analysis.neurons.unit_statistics import LayerUnits, collect_units

LAYER = "decoder_layer_1/feedforward"


@pytest.fixture(scope="module")
def encoder() -> AnalysisContext:
    return make_encoder_context(3, 9, 5, 12, 7)


@pytest.fixture(scope="module")
def decoder(encoder) -> AnalysisContext:
    return make_decoder_context(encoder)


def collect_by_hand(context: AnalysisContext, layer: str) -> list[np.ndarray]:
    """Activations of the ordinary tokens of each text, (T, I)."""
    found = []
    for number, row in enumerate(context.texts.rows):
        with recorded("/units") as units:
            context.model(make_inputs(context, number))
        ordinary = np.isin(row["token_ids"], context.tokenizer.ordinary_ids)
        values = units[f"{layer}/units"].numpy()[0].copy()
        values[~ordinary] = np.nan
        found.append(values)
    return found


def test_units_of_all_texts(decoder):
    """Special tokens and padding do not count; batches have several texts."""
    found = collect_units(decoder, 3)[LAYER]
    texts = collect_by_hand(decoder, LAYER)
    every = np.concatenate(texts)
    every = every[~np.isnan(every[:, 0])]
    assert found.tokens == len(every) == 36
    np.testing.assert_allclose(found.means, every.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.deviations, every.std(axis=0), atol=1e-5)
    np.testing.assert_array_equal(found.active, (every > 0).sum(axis=0))
    largest = np.array([np.nanmax(text, axis=0) for text in texts])
    np.testing.assert_allclose(
        found.top.activations, -np.sort(-largest, axis=0)[:3].T, atol=1e-5
    )
    for unit in (0, 5):
        first = found.top.texts[unit, 0]
        position = np.nanargmax(texts[first][:, unit])
        assert found.top.positions[unit, 0] == position
    largest = np.sort(largest, axis=0)[-3:].mean(axis=0)
    strengths = (largest - every.mean(axis=0)) / every.std(axis=0)
    np.testing.assert_allclose(found.strengths, strengths, rtol=1e-3)
    shares = [np.nanmean(np.where(np.isnan(x), x, x > 0)) for x in texts]
    np.testing.assert_allclose(found.shares[:, 0] / found.shares[:, 1], shares)


def test_part_of_a_decoder(decoder):
    part = analyze_neurons(decoder, top=3)
    json.dumps(dict(part.numbers), allow_nan=False)
    layers = part.tables["layers"].to_pylist()
    assert [row["layer"] for row in layers] == [
        "decoder_layer_0/feedforward",
        "decoder_layer_1/feedforward",
    ]
    for row in layers:
        assert 0 < row["active_low"] <= row["active"] <= row["active_high"] < 1
        assert 0 <= row["agreement"] <= 1
    units = part.tables["units"].to_pylist()
    assert len(units) == 10
    strengths = [row["strength"] for row in units[:5]]
    assert strengths == sorted(strengths, reverse=True)
    assert len(units[0]["favored"]) == 10
    triggers = part.tables["triggers"].to_pylist()
    assert len(triggers) == 30
    first = triggers[0]
    assert first["activation"] == max(row["activation"] for row in triggers[:3])
    ids = decoder.texts.rows[first["text"]]["token_ids"]
    pieces = decoder.tokenizer.pieces
    assert first["token"] == pieces[ids[first["position"]]]
    assert first["next"] == pieces[ids[first["position"] + 1]]
    assert "by chance" in part.summary


def test_part_of_an_encoder_has_no_favored_tokens(encoder):
    part = analyze_neurons(encoder, units=[("encoder_layer_0/feedforward", 7)], top=2)
    (unit,) = part.tables["units"].to_pylist()
    assert (unit["layer"], unit["unit"]) == ("encoder_layer_0/feedforward", 7)
    assert unit["favored"] is None
    assert part.tables["layers"].to_pylist()[0]["agreement"] is None
    assert any("left out" in note for note in part.notes)


def test_agreement_by_hand():
    """Of four units one has no next token; one of the other three agrees."""
    top = TopTexts(4, 1)
    maximum = np.array([[3.0, 1.0, 3.0, 3.0], [1.0, 2.0, 1.0, 1.0]])
    position = np.array([[0, 0, 1, 2], [1, 0, 1, 1]])
    top.update(np.arange(2), maximum, position)
    zeros = np.zeros(4)
    layer = LayerUnits(top, zeros, zeros, zeros, 6.0, np.zeros((2, 2)))
    rows = [np.array([5, 6, 7]), np.array([8, 9, 6])]
    values = ValueTokens(np.array([[6], [6], [6], [7]]), np.ones((4, 1)))
    found = measure_agreement(layer, rows, values, seed=0)
    # Next tokens: 6, 9, 7, none.
    assert found.counted.tolist() == [True, True, True, False]
    assert found.agrees.tolist() == [True, False, False, False]
    assert found.share.score == pytest.approx(1 / 3)
    assert found.baseline == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top=0"),
        ({"units": [("nowhere", 0)]}, "'nowhere'; the model has decoder_layer_0"),
        ({"units": [(LAYER, 10**6)]}, "unit 1000000"),
        ({"units": [(LAYER, -1)]}, "unit -1"),
    ],
)
def test_units_that_are_not_there(decoder, options, message):
    with pytest.raises(ConfigError, match=message):
        analyze_neurons(decoder, **options)


def test_what_has_no_units(decoder):
    special = decoder.tokenizer.special
    assert analyze_neurons(decoder, top=1).summary != "Does not apply."
    part = analyze_neurons(with_texts(decoder, [special.begin, special.end]))
    assert part.notes == ("The texts have no ordinary token.",)
