"""Attention between two texts: against the maps, for all arrangements of weights."""

import keras
import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    LowRankAttentionConfig,
)
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.inspect.pair_attention import pair_attention
from transbeam.model.seq2seq import build_seq2seq

# [CLS] A A [SEP] B B B [SEP], and a shorter pair with padding.
FIRST = np.array([[0, 1, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0]])
SECOND = np.array([[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]])
MASK = np.array([[1] * 8, [1] * 6 + [0] * 2], "int32")


def inputs(length: int = 8) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, VOCABULARY_SIZE, (2, length)).astype("int32")
    mask = np.pad(MASK, ((0, 0), (0, length - 8)))
    return {"token_ids": ids * mask, "padding_mask": mask}


def test_against_the_maps(randomise):
    """Two layers with three heads: neither axis is taken for the other."""
    config = small_config(
        num_segments=0, hidden_dim=12, attention=FullAttentionConfig(num_heads=3)
    )
    model = randomise(build_encoder(config, VOCABULARY_SIZE))
    found = pair_attention(model, inputs(), FIRST, SECOND)
    maps = attention_probabilities(model, inputs())
    assert sorted(found) == sorted(maps)
    for path, probabilities in maps.items():
        for text, head in np.ndindex(2, 3):
            a = np.asarray(probabilities)[text, head]
            first, second = (np.flatnonzero(x[text]) for x in (FIRST, SECOND))
            there = a[np.ix_(first, second)].sum()
            back = a[np.ix_(second, first)].sum()
            one = found[path]
            assert float(one.to_second[text, head]) == pytest.approx(there, abs=1e-5)
            assert float(one.to_first[text, head]) == pytest.approx(back, abs=1e-5)


def test_uniform_attention_by_hand():
    """Queries and keys of zero: 2 x 3 pairs of tokens with a weight of 1/8 each."""
    model = build_encoder(small_config(num_segments=0), VOCABULARY_SIZE)
    for weight in model.weights:
        if "/query/" in weight.path or "/key/" in weight.path:
            weight.assign(keras.ops.zeros(weight.shape))
    found = pair_attention(model, inputs(), FIRST, SECOND)
    for one in found.values():
        np.testing.assert_allclose(one.to_second, [[6 / 8] * 2, [2 / 6] * 2], rtol=1e-5)
        np.testing.assert_allclose(one.to_first, one.to_second, rtol=1e-5)


def test_blocks_are_counted_once():
    """Uniform attention, of queries in windows and of queries of whole documents."""
    config = small_config(
        num_segments=0,
        num_layers=1,
        max_sequence_length=40,
        attention=BlockSparseAttentionConfig(
            num_heads=2, block_size=8, num_random_blocks=1
        ),
    )
    model = build_encoder(config, VOCABULARY_SIZE)
    for weight in model.weights:
        if "/query/" in weight.path or "/key/" in weight.path:
            weight.assign(keras.ops.zeros(weight.shape))
    first, second = (np.pad(x, ((0, 0), (0, 32))) for x in (FIRST, SECOND))
    (one,) = pair_attention(model, inputs(40), first, second).values()
    np.testing.assert_allclose(one.to_second, [[6 / 8] * 2, [2 / 6] * 2], rtol=1e-5)
    np.testing.assert_allclose(one.to_first, one.to_second, rtol=1e-5)


def test_projections_are_of_both_texts():
    config = small_config(
        num_segments=0,
        max_sequence_length=8,
        attention=LowRankAttentionConfig(num_heads=2, rank=4),
    )
    model = build_encoder(config, VOCABULARY_SIZE)
    with pytest.raises(ConfigError, match="projections"):
        pair_attention(model, inputs(), FIRST, SECOND)


def test_two_stacks_have_no_pairs():
    config = Seq2SeqModelConfig(hidden_dim=8, num_layers=1, num_decoder_layers=1)
    model = build_seq2seq(config, VOCABULARY_SIZE)
    with pytest.raises(ConfigError, match="both texts of a pair in one row"):
        pair_attention(model, inputs(), FIRST, SECOND)
