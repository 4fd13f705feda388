"""Attention between tokens of all kinds, against other readings of the weights."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import VOCABULARY_SIZE
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.model import EncoderConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.token_attention import (
    read_token_attention,
    read_visible_attention,
)
from transbeam.model.inspect.word_attention import read_word_attention

LENGTH, REAL = 24, 19
IDS = np.random.default_rng(0).integers(1, VOCABULARY_SIZE, (2, LENGTH), "int32")
MASK = np.int32([[1] * LENGTH, [1] * REAL + [0] * (LENGTH - REAL)])
INPUTS = {"token_ids": IDS, "padding_mask": MASK}


def encoder(attention):
    config = EncoderConfig(
        num_layers=2, hidden_dim=16, max_sequence_length=LENGTH, attention=attention
    )
    model = build_encoder(config, VOCABULARY_SIZE)
    generator = np.random.default_rng(7)
    for weight in model.weights:
        weight.assign(weight + generator.normal(0, 0.4, weight.shape))
    return model


@pytest.mark.parametrize(
    "attention",
    [
        FullAttentionConfig(num_heads=4),
        SlidingWindowAttentionConfig(num_heads=4, window_size=6),
        GlobalWindowAttentionConfig(num_heads=4, window_size=6),
        BlockSparseAttentionConfig(num_heads=4, block_size=3, num_random_blocks=1),
    ],
    ids=lambda attention: attention.kind,
)
def test_words_of_one_token_each(attention):
    model = encoder(attention)
    found = read_token_attention(model, INPUTS)
    membership = np.repeat(np.eye(LENGTH)[None], 2, axis=0)
    words = read_word_attention(model, INPUTS, membership)
    assert list(found) == list(words)
    for path, weights in found.items():
        weights = ops.convert_to_numpy(weights)
        np.testing.assert_allclose(
            weights, ops.convert_to_numpy(words[path]), atol=1e-6
        )
        # Of padding and to padding there is nothing.
        sums = weights.sum(axis=3)
        np.testing.assert_allclose(
            sums, np.broadcast_to(MASK[:, None], sums.shape), atol=1e-5
        )
        assert not weights[1, :, :, REAL:].any()
    for weights, visible in read_visible_attention(model, INPUTS).values():
        # Each key that a query may attend to has some weight.
        some = ops.convert_to_numpy(weights) > 0
        seen = np.broadcast_to(ops.convert_to_numpy(visible), some.shape)
        np.testing.assert_array_equal(seen, some)


def test_full_attention_is_as_it_was_computed():
    model = encoder(FullAttentionConfig(num_heads=4))
    one = {name: values[:1] for name, values in INPUTS.items()}
    found, expected = (
        read_token_attention(model, one),
        attention_probabilities(model, one),
    )
    assert list(found) == list(expected)
    for path, weights in found.items():
        np.testing.assert_allclose(
            ops.convert_to_numpy(weights),
            ops.convert_to_numpy(expected[path]),
            atol=1e-7,
        )


def test_a_window_over_the_whole_text_is_full_attention():
    full = encoder(FullAttentionConfig(num_heads=4))
    window = encoder(SlidingWindowAttentionConfig(num_heads=4, window_size=2 * LENGTH))
    window.set_weights(full.get_weights())
    found, expected = (read_token_attention(model, INPUTS) for model in (window, full))
    for path, weights in found.items():
        np.testing.assert_allclose(
            ops.convert_to_numpy(weights),
            ops.convert_to_numpy(expected[path]),
            atol=1e-6,
        )


def test_low_rank_attention_is_left_out():
    model = encoder(LowRankAttentionConfig(num_heads=4, rank=4))
    assert read_token_attention(model, INPUTS) == {}
