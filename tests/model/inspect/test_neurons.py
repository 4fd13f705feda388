"""Statistics of units, and tokens of value vectors, against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from scipy.special import softmax

from tests.model.inspect.decoders import LAYERS, make_decoder, make_inputs
from transbeam.configs.schema.block import NoFeedForwardConfig
from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.linear_head import LinearHead
from transbeam.model.inspect.neurons import (
    TopTexts,
    feedforward_layers,
    measure_units,
    read_value_tokens,
)


def test_statistics_do_not_count_padding():
    units = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    lengths = (5, 2, 0)
    real = np.arange(5) < np.array(lengths)[:, None]
    units[~real] = 99  # as large as can be
    found = [ops.convert_to_numpy(x) for x in measure_units(units, real)]
    maximum, position, total, squares, active, share, tokens = found
    tokens_of_texts = [row[:length] for row, length in zip(units, lengths, strict=True)]
    every = np.concatenate(tokens_of_texts)
    np.testing.assert_allclose(total, every.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(squares, (every**2).sum(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(active, (every > 0).sum(axis=0))
    for number, row in enumerate(tokens_of_texts[:2]):
        np.testing.assert_array_equal(maximum[number], row.max(axis=0))
        np.testing.assert_array_equal(position[number], row.argmax(axis=0))
        assert share[number] == pytest.approx((row > 0).mean())
    assert np.isneginf(maximum[2]).all()
    assert (share[2], tokens.tolist()) == (0, [5, 2, 0])


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 5))
def test_the_top_texts_are_those_of_a_full_sort(seed, k, size):
    """However the texts are divided into batches."""
    generator = np.random.default_rng(seed)
    maximum = generator.integers(0, 9, (11, 3)).astype("float32")
    position = generator.integers(0, 50, (11, 3)).astype("int32")
    top = TopTexts(3, k)
    for first in range(0, 11, size):
        part = slice(first, first + size)
        top.update(np.arange(11)[part], maximum[part], position[part])
    for unit in range(3):
        order = np.argsort(-maximum[:, unit], kind="stable")[:k]
        np.testing.assert_array_equal(top.texts[unit], order)
        np.testing.assert_array_equal(top.activations[unit], maximum[order, unit])
        np.testing.assert_array_equal(top.positions[unit], position[order, unit])


def test_texts_without_tokens_are_in_no_top():
    top = TopTexts(2, 3)
    top.update(np.array([4]), np.full((1, 2), -np.inf), np.zeros((1, 2), int))
    top.update(np.array([5]), np.array([[-1.0, 2.0]]), np.ones((1, 2), int))
    assert top.texts.tolist() == [[5, -1, -1], [5, -1, -1]]


def test_memory_does_not_depend_on_the_number_of_texts():
    top = TopTexts(4, 2)
    size = top.activations.nbytes + top.texts.nbytes + top.positions.nbytes
    for number in range(50):
        top.update(np.array([number]), np.full((1, 4), number), np.zeros((1, 4), int))
    assert top.activations.nbytes + top.texts.nbytes + top.positions.nbytes == size
    assert top.texts.tolist() == [[49, 48]] * 4


@pytest.mark.parametrize("rms", [False, True], ids=["dense", "gated"])
def test_value_tokens(randomise, rms):
    """Reads what a unit adds to a hidden state, one unit at a time."""
    model = make_decoder(randomise, rms=rms)
    head = LinearHead.from_model(model)
    layers = feedforward_layers(model)
    assert list(layers) == [f"decoder_layer_{n}/feedforward" for n in range(LAYERS)]
    for layer in layers.values():
        found = read_value_tokens(layer, head, 3)
        for unit in range(layer.intermediate_dim):
            one = np.zeros((1, 1, layer.intermediate_dim), "float32")
            bias = ops.convert_to_numpy(layer.output_projection(one))[0, 0]
            one[..., unit] = 1
            value = ops.convert_to_numpy(layer.output_projection(one))[0, 0] - bias
            expected = softmax(head.table.astype("float64") @ value)
            order = np.argsort(-expected)[:3]
            assert found.ids[unit].tolist() == order.tolist()
            np.testing.assert_allclose(
                found.probabilities[unit], expected[order], rtol=1e-3
            )


def test_value_tokens_in_parts(randomise, monkeypatch):
    """Logits over the vocabulary are held for a few units at a time."""
    model = make_decoder(randomise)
    head = LinearHead.from_model(model)
    layer = next(iter(feedforward_layers(model).values()))
    whole = read_value_tokens(layer, head, 4)
    module = "transbeam.model.inspect.neurons._MOST_LOGITS"
    monkeypatch.setattr(module, 3 * len(head.table))
    parts = read_value_tokens(layer, head, 4)
    np.testing.assert_array_equal(whole.ids, parts.ids)
    np.testing.assert_allclose(whole.probabilities, parts.probabilities, rtol=1e-4)


def test_every_layer_has_its_activation(randomise):
    model = make_decoder(randomise)
    with recorded("/units") as units:
        model(make_inputs())
    assert [path.removesuffix("/units") for path in units] == list(
        feedforward_layers(model)
    )
    assert not feedforward_layers(
        make_decoder(randomise, feedforward=NoFeedForwardConfig())
    )
