"""Attended pairs of the layers, beside matrices written out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import AlibiPositionConfig
from transbeam.configs.schema.model import DecoderConfig, EncoderConfig
from transbeam.model.inspect.attended_pairs import attended_pairs, attention_of_shape
from transbeam.model.layers.masks import attention_mask
from transbeam.model.stack.stack_spec import stack_specs

LENGTH = 12
ENCODER = stack_specs(EncoderConfig(max_sequence_length=LENGTH))["encoder"]
DECODER = stack_specs(DecoderConfig(max_sequence_length=LENGTH))["decoder"]
ONE = {"padding_mask": np.ones((1, LENGTH), "int32")}
# Distance from each query to each key, positive for later keys.
AHEAD = np.arange(LENGTH) - np.arange(LENGTH)[:, None]


def seen(attention, row=ONE, *, causal=False, **options) -> np.ndarray:
    layer = attention_of_shape(DECODER if causal else ENCODER, attention)
    return attended_pairs(layer, row, **options)


def packed(*sizes: int) -> dict[str, np.ndarray]:
    """A row of documents, and padding behind them."""
    documents = np.zeros((1, LENGTH), "int32")
    positions = np.zeros((1, LENGTH), "int32")
    begin = 0
    for number, size in enumerate(sizes, start=1):
        documents[0, begin : begin + size] = number
        positions[0, begin : begin + size] = np.arange(size)
        begin += size
    return {"document_ids": documents, "position_ids": positions}


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(
        lambda sizes: sum(sizes) <= LENGTH
    ),
    causal=st.booleans(),
    prefix=st.integers(0, LENGTH),
)
def test_full_attention_is_its_mask(sizes, causal, prefix):
    row = packed(*sizes)
    if causal:
        row["prefix_mask"] = (np.arange(LENGTH) < prefix)[None].astype("int32")
    info = {name: ops.convert_to_tensor(x) for name, x in row.items()}
    mask = ops.convert_to_numpy(attention_mask(info, causal=causal))[0]
    real = row["document_ids"][0] > 0
    found = seen(FullAttentionConfig(), row, causal=causal)
    np.testing.assert_array_equal(found, mask & real[:, None])


def test_windows():
    window = SlidingWindowAttentionConfig(window_size=4)
    np.testing.assert_array_equal(seen(window), np.abs(AHEAD) <= 2)
    before = (AHEAD <= 0) & (AHEAD > -4)
    np.testing.assert_array_equal(seen(window, causal=True), before)


def test_a_window_with_global_tokens():
    attention = GlobalWindowAttentionConfig(window_size=4, num_global_tokens=2)
    expected = np.abs(AHEAD) <= 2
    expected[:2] = expected[:, :2] = True
    np.testing.assert_array_equal(seen(attention), expected)


def test_blocks_without_and_with_random_ones():
    blocks = np.arange(LENGTH) // 2
    expected = np.abs(blocks[:, None] - blocks) <= 1
    outermost = (blocks == 0) | (blocks == 5)
    expected |= outermost | outermost[:, None]
    attention = BlockSparseAttentionConfig(block_size=2, num_random_blocks=0)
    np.testing.assert_array_equal(seen(attention), expected)
    with_random = seen(replace(attention, num_heads=1, num_random_blocks=1))
    assert (with_random >= expected).all()
    # One more block of two keys for each query that can have one.
    more = (with_random & ~expected).sum(axis=1)
    rest = (~expected).sum(axis=1)
    np.testing.assert_array_equal(more, np.minimum(rest, 2))
    # Heads draw blocks of their own.
    assert seen(replace(attention, num_heads=8, num_random_blocks=1)).sum() > (
        with_random.sum()
    )


@pytest.mark.parametrize(
    "attention", [LowRankAttentionConfig(rank=4), KernelAttentionConfig()]
)
def test_kinds_without_a_score_for_each_pair(attention):
    row = packed(4, 6)
    documents = row["document_ids"][0]
    same = (documents == documents[:, None]) & (documents > 0)
    np.testing.assert_array_equal(seen(attention, row), same)
    if isinstance(attention, KernelAttentionConfig):
        found = seen(attention, row, causal=True)
        np.testing.assert_array_equal(found, same & (AHEAD <= 0))


def test_small_weights_hide_no_pair():
    layer = attention_of_shape(ENCODER, LowRankAttentionConfig(rank=4))
    assert attended_pairs(layer, ONE).all()
    for weight in layer.weights:
        weight.assign(weight * 1e-2)
    assert attended_pairs(layer, ONE).all()


def test_cells_of_several_tokens():
    window = SlidingWindowAttentionConfig(window_size=4)
    whole = seen(window, causal=True)
    cells = seen(window, causal=True, cells=5)  # of three tokens: four cells
    expected = whole.reshape(4, 3, 4, 3).any(axis=(1, 3))
    np.testing.assert_array_equal(cells, expected)


def test_positions_do_not_hide_far_tokens():
    steep = replace(
        ENCODER, config=replace(ENCODER.config, position=AlibiPositionConfig())
    )
    layer = attention_of_shape(steep)
    assert layer.score_bias is None
    assert attended_pairs(layer, ONE).all()
