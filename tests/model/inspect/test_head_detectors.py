"""Detectors of heads: patterns by hand, and heads that are built to be detected."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE
from tests.model.inspect.dense_heads import LayerModel
from tests.model.layers.attention.masked_reference import D, H, floats, randomised
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.model import DecoderConfig, Seq2SeqModelConfig
from transbeam.model.decoder import build_decoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.head_detectors import (
    DETECTORS,
    detect_heads,
    detector_patterns,
    repeat_random_tokens,
)
from transbeam.model.layers.attention.attended_keys import RowKeys
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.seq2seq import build_seq2seq


def test_patterns_by_hand():
    ids = np.array([[7, 8, 7, 8, 7, 0]])
    patterns = ops.convert_to_numpy(detector_patterns(ids, ids > 0))[0]
    pairs = {
        name: list(zip(*np.nonzero(pattern), strict=True))
        for name, pattern in zip(DETECTORS, patterns, strict=True)
    }
    assert pairs == {
        "previous_token": [(1, 0), (2, 1), (3, 2), (4, 3)],
        "duplicate_token": [(2, 0), (3, 1), (4, 0), (4, 2)],
        "induction": [(2, 1), (3, 2), (4, 1), (4, 3)],
    }


def test_a_perfect_induction_head_scores_one():
    ids = repeat_random_tokens(np.arange(5, 40), texts=2, seed=3, length=4, copies=3)
    assert ids.shape == (2, 12)
    assert (ids[:, :4] == ids[:, 4:8]).all()
    assert all(len(set(row)) == 4 for row in ids)
    weights = np.zeros((2, 1, 12, 12), "float32")
    for query in range(12):
        # To the token after the last copy; the first tokens attend to themselves.
        weights[:, :, query, query - 4 + 1 if query >= 4 else query] = 1

    class Given(LayerModel):
        def __call__(self, inputs, training=False):
            visible = ops.convert_to_tensor(np.tril(np.ones((2, 1, 12, 12))) > 0)
            self.layer.probabilities(weights, keys=lambda: RowKeys(visible))

    layer = MultiHeadAttention(4, 1, name="decoder_attention")
    layer.build((None, None, 4))
    model = Given(layer, weights, ("token_ids", "padding_mask"))
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    found = detect_heads(model, inputs)["decoder_attention"]
    np.testing.assert_array_equal(found["queries"], [[11, 8, 8]] * 2)
    np.testing.assert_allclose(found["weights"], [[[0, 0, 8]]] * 2)


@pytest.mark.parametrize(
    "attention",
    [
        FullAttentionConfig(num_heads=2),
        SlidingWindowAttentionConfig(num_heads=2, window_size=6),
    ],
    ids=["full", "sliding window"],
)
def test_against_the_maps(attention, randomise):
    config = DecoderConfig(num_layers=3, hidden_dim=8, attention=attention)
    model = randomise(build_decoder(config, VOCABULARY_SIZE))
    ids = np.random.default_rng(0).integers(1, 5, (2, 9)).astype("int32")
    mask = (np.arange(9) < np.array([[9], [6]])).astype("int32")
    inputs = {"token_ids": ids, "padding_mask": mask}
    maps = attention_probabilities(model, inputs)
    found = detect_heads(model, inputs)
    assert list(found) == list(maps)
    pairs = ops.convert_to_numpy(detector_patterns(ids, mask == 1))
    for path, scores in found.items():
        weights = ops.convert_to_numpy(maps[path])
        if weights.ndim == 5:  # one block of queries, the second of its two of keys
            weights = weights[0, :, :, :9, -32:][..., :9]
        expected = np.einsum("bhqk,bpqk->bhp", weights, pairs)
        np.testing.assert_allclose(scores["weights"], expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(scores["queries"], pairs.any(axis=3).sum(axis=2))


def test_many_blocks_are_one_row():
    ids = np.random.default_rng(0).integers(1, 9, (2, 40)).astype("int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    x, found = floats(2, 40, D), []
    wide = SlidingWindowAttention(D, H, window_size=80, causal=True, name="decoder")
    wide.block_size = 8
    for layer in (wide, MultiHeadAttention(D, H, causal=True, name="decoder")):
        randomised(layer)

        class Model(LayerModel):
            def __call__(self, inputs, training=False):
                mask = {"padding_mask": inputs["padding_mask"]}
                return self.layer(self.x, mask, training=training)

        model = Model(layer, x, tuple(inputs))
        found.append(detect_heads(model, inputs)["decoder"]["weights"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_too_few_tokens_to_draw():
    with pytest.raises(ConfigError, match="found 24 ordinary tokens"):
        repeat_random_tokens(np.arange(24), texts=1, seed=0)


def test_an_encoder_decoder_is_refused():
    model = build_seq2seq(Seq2SeqModelConfig(num_layers=1, hidden_dim=8), 10)
    with pytest.raises(ConfigError, match="encoder_token_ids"):
        detect_heads(model, dict(model.input))


def test_no_probabilities():
    config = DecoderConfig(
        num_layers=1, hidden_dim=8, attention=KernelAttentionConfig(num_heads=2)
    )
    model = build_decoder(config, VOCABULARY_SIZE)
    ones = np.ones((1, 3), "int32")
    with pytest.raises(ConfigError, match="kernel attention"):
        detect_heads(model, {"token_ids": ones, "padding_mask": ones})
