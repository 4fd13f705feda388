"""Block sparse attention against all pairs with a mask, and what it costs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tests.model.compiling import ON_JAX, compiled_on_jax
from tests.model.conftest import others_thorough, tensorflow_only
from tests.model.layers.attention.masked_reference import (
    POLICIES,
    D,
    H,
    check_packed_is_alone,
    compare,
    dense_attention,
    documents,
    floats,
    full_twin,
    largest_tensor,
    left_padded,
    packed,
    padded,
    randomised,
    same_document,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention.block_sparse import PRIME, BlockSparseAttention
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.relative_bias import RelativeBias
from transbeam.model.layers.positions.rotary import RotaryEmbedding


def attention(
    block_size: int, num_random_blocks: int, **options
) -> BlockSparseAttention:
    options = {"num_key_value_heads": 2, "head_dim": 4, "seed": 5, **options}
    return randomised(
        BlockSparseAttention(
            D,
            H,
            block_size=block_size,
            num_random_blocks=num_random_blocks,
            **options,
        )
    )


def drawn_blocks(layer: BlockSparseAttention, head: int, number: int, count: int):
    """The blocks that one block draws, one after the other."""
    # Its candidates, from the one after its neighbours on and around.
    around = [*range(number + 2, count - 1), *range(1, number - 1)]
    draws = layer.num_random_blocks
    drawn = []
    for draw in range(draws):
        piece = around[draw * len(around) // draws : (draw + 1) * len(around) // draws]
        chance = (
            int(layer.factors[head, draw]) * number + int(layer.shifts[head, draw])
        ) % PRIME
        if piece:
            drawn.append(piece[chance % len(piece)])
    return drawn


def blocks_seen(layer: BlockSparseAttention, count: int) -> np.ndarray:
    """Mask of the blocks that each block attends to: bool `(H, count, count)`."""
    seen = np.zeros((H, count, count), bool)
    for head in range(H):
        for number in range(count):
            if number in (0, count - 1):
                seen[head, number] = True
                continue
            near = [number - 1, number, number + 1, 0, count - 1]
            drawn = drawn_blocks(layer, head, number, count)
            assert not set(near) & set(drawn)
            assert len(set(drawn)) == len(drawn)
            seen[head, number, near + drawn] = True
    return seen


def mask_of_all_pairs(layer: BlockSparseAttention, sequence_info) -> np.ndarray:
    same = same_document(sequence_info)
    ids, positions = documents(sequence_info)
    mask = np.zeros((same.shape[0], H, *same.shape[1:]), bool)
    for row in range(len(ids)):
        for number in set(ids[row][ids[row] != 0]):
            inside = np.flatnonzero(ids[row] == number)
            block = positions[row][inside] // layer.block_size
            seen = blocks_seen(layer, block.max() + 1)
            mask[row][np.ix_(range(H), inside, inside)] = seen[:, block[:, None], block]
    return mask


def check_against_all_pairs(layer, sequence_info):
    rows, length, _ = same_document(sequence_info).shape
    mask = mask_of_all_pairs(layer, sequence_info)

    def expected(inputs):
        heads = layer.project(inputs, sequence_info.get("position_ids"))
        return layer.join(dense_attention(layer, heads, sequence_info, mask))

    compare(layer, floats(rows, length, D), sequence_info, expected)


SEQUENCES = {
    "padded": padded(57, 130, to=130),
    "left-padded": left_padded(57, 130, to=130),
    "packed": packed([70, 1, 59], [8, 8, 16, 64], [130], padding=5),
}
# Each of both, and together what they meet in texts side by side.
TOGETHER = [(0, "padded"), (1, "left-padded"), (3, "padded")]
TOGETHER += [(number, "packed") for number in [0, 1, 3]]
EACH = list(itertools.product([0, 1, 3], SEQUENCES))


@pytest.mark.parametrize("case", others_thorough(EACH, TOGETHER), ids=str)
def test_against_all_pairs(case):
    number, name = case
    check_against_all_pairs(attention(8, number), SEQUENCES[name])


@settings(max_examples=3 if ON_JAX else 5)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(0, 4),
)
def test_any_blocks_and_any_documents(lengths, block_size, num_random_blocks):
    layer = attention(block_size, num_random_blocks)
    check_against_all_pairs(layer, packed(lengths, padding=2))
    check_against_all_pairs(layer, padded(*lengths, to=max(lengths) + 1))


def test_a_short_text_is_full_attention():
    layer = attention(8, 0)
    full = full_twin(layer)
    x, sequence_info = floats(2, 24, D), packed([10, 14], [24])
    here, there = (
        compiled_on_jax(lambda x, kind=kind: kind(x, sequence_info))(x)
        for kind in (layer, full)
    )
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-5)


@pytest.mark.parametrize("num_random_blocks", [0, 2])
def test_packed_is_alone(num_random_blocks):
    check_packed_is_alone(attention(4, num_random_blocks), 50, 3, 1, 61)


POSITIONS = {
    "rope": {"rotary": RotaryEmbedding()},
    "alibi": {"score_bias": LinearBias(H, directed=True, dtype="float32")},
    "relative": {"score_bias": RelativeBias(8, 16, dtype="float32")},
}


@pytest.mark.parametrize(
    ("position", "sequence_info"),
    [
        ("rope", packed([75, 30], padding=2)),
        ("alibi", padded(100, to=100)),
        ("relative", packed([75, 30], padding=2)),
        pytest.param("rope", padded(100, to=100), marks=pytest.mark.thorough),
        pytest.param("alibi", packed([75, 30], padding=2), marks=pytest.mark.thorough),
        pytest.param("relative", padded(100, to=100), marks=pytest.mark.thorough),
    ],
)
def test_positions(position, sequence_info):
    sequence_info = dict(sequence_info)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    check_against_all_pairs(attention(8, 2, **POSITIONS[position]), sequence_info)


@tensorflow_only
@pytest.mark.parametrize("position", others_thorough(POSITIONS, ["relative"]))
def test_in_groups_of_blocks(monkeypatch, position):
    monkeypatch.setattr(
        "transbeam.model.kernels.blockwise_map_tensorflow.WORK_AT_ONCE", 10_000
    )
    sequence_info = packed([75, 30, 60], [150], padding=2)
    if position == "relative":
        sequence_info["bias_table"] = floats(8, H)
    layer = attention(8, 2, **POSITIONS[position])
    check_against_all_pairs(layer, sequence_info)


def test_heads_draw_blocks_of_their_own_by_the_seed():
    seen = blocks_seen(attention(4, 3), 40)
    assert not np.array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen, blocks_seen(attention(4, 3), 40))
    assert not np.array_equal(seen, blocks_seen(attention(4, 3, seed=6), 40))
    # 38 inner blocks of 4 heads draw 3 each: all are seen by someone far away.
    often = seen[:, 1:-1, 1:-1].sum(axis=(0, 1))
    assert often.sum() == 4 * (3 * 38 - 2 + 3 * 38)
    assert often.min() > 12  # by their neighbours alone, and themselves: 12


def test_a_drawn_seed_is_kept():
    layer = attention(4, 3, seed=None)
    copy = BlockSparseAttention.from_config(layer.get_config())
    np.testing.assert_array_equal(copy.factors, layer.factors)
    assert not np.array_equal(attention(4, 3, seed=None).factors, layer.factors)


def test_probabilities_can_be_read():
    layer = attention(8, 2)
    with layer.probabilities.watch() as seen:
        layer(floats(1, 80, D), padded(75, to=80))
    inner, outer = map(ops.convert_to_numpy, seen)
    assert inner.shape == (10, 1, H, 8, (3 + 2 + 2) * 8)
    np.testing.assert_allclose(inner.sum(axis=-1), 1.0, rtol=1e-5)
    assert outer.shape == (10, 1, H, 2 * 8, 8)
    sums = outer.sum(axis=(0, 4))[0]
    np.testing.assert_allclose(sums[:, : 8 + 3], 1.0, rtol=1e-5)


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer, x = attention(4, 1, dropout=0.5, seed=3), floats(1, 40, D)
    sequence_info = padded(40, to=40)
    at_rest = ops.convert_to_numpy(layer(x, sequence_info))
    np.testing.assert_array_equal(at_rest, layer(x, sequence_info, training=False))
    trained = ops.convert_to_numpy(layer(x, sequence_info, training=True))
    assert (np.abs(trained - at_rest).max(axis=(0, 2)) > 0.01).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sequence_info", [padded(0, to=40), packed([], padding=40)])
def test_an_empty_row_is_finite(policy, sequence_info):
    layer = attention(4, 2, dtype=policy)
    answer = compiled_on_jax(lambda x: layer(x, sequence_info))
    outputs = ops.convert_to_numpy(answer(floats(1, 40, D)))
    assert np.isfinite(outputs.astype("float32")).all()


@tensorflow_only
def test_memory_grows_with_the_length():
    layer = attention(16, 2)
    short, long = (largest_tensor(layer, length) for length in (512, 2048))
    # Scores: three blocks in the window, two outermost and two drawn.
    assert long == 2048 * H * 7 * 16
    assert long == 4 * short


def test_impossible_arguments_are_refused():
    with pytest.raises(ConfigError, match="block_size=0"):
        BlockSparseAttention(D, H, block_size=0)
    with pytest.raises(ConfigError, match="num_random_blocks=-1"):
        BlockSparseAttention(D, H, num_random_blocks=-1)
    with pytest.raises(ConfigError, match="causal=True"):
        BlockSparseAttention(D, H, causal=True)
