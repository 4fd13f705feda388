"""Low rank attention against sums made by hand, and what it costs."""

import numpy as np
import pytest
from keras import ops

from tests.model.conftest import tensorflow_only
from tests.model.layers.attention.masked_reference import (
    D,
    H,
    check_packed_is_alone,
    compare,
    documents,
    floats,
    full_twin,
    largest_tensor,
    left_padded,
    packed,
    padded,
    randomised,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.rotary import RotaryEmbedding


def attention(longest: int, rank: int, **options) -> LowRankAttention:
    options = {"num_key_value_heads": 2, "head_dim": 4, **options}
    return randomised(
        LowRankAttention(D, H, max_sequence_length=longest, rank=rank, **options)
    )


def check_against_each_document(layer, sequence_info):
    """Document by document, with all weights of its sums cut out of the matrix."""
    ids, positions = documents(sequence_info)
    values_by = layer.key_summary if layer.share_key_value else layer.value_summary

    def expected(inputs):
        query, key, value = layer.project(inputs)
        outputs = ops.zeros_like(query)
        key, value = ops.repeat(key, 2, axis=2), ops.repeat(value, 2, axis=2)
        for row, number in {(r, n) for r, part in enumerate(ids) for n in part if n}:
            inside = np.flatnonzero(ids[row] == number)
            at = positions[row][inside]
            keys = ops.einsum(
                "ts,thk->shk",
                ops.take(layer.key_summary, at, 0),
                key[row, inside[0] : inside[-1] + 1],
            )
            values = ops.einsum(
                "ts,thk->shk",
                ops.take(values_by, at, 0),
                value[row, inside[0] : inside[-1] + 1],
            )
            scores = ops.einsum("thk,shk->hts", query[row], keys)
            one = ops.einsum("hts,shk->thk", ops.softmax(scores, axis=-1), values)
            mine = (ids == number) & (np.arange(len(ids)) == row)[:, None]
            outputs = ops.where(mine[..., None, None], one[None], outputs)
        return layer.join(outputs)

    rows, length = ids.shape
    compare(layer, floats(rows, length, D), sequence_info, expected)


@pytest.mark.parametrize("share_key_value", [False, True])
@pytest.mark.parametrize(
    "sequence_info",
    [
        padded(7, 12, to=12),
        left_padded(7, 12, to=12),
        packed([4, 1, 5], [9], padding=2),
    ],
    ids=["padded", "left-padded", "packed"],
)
def test_against_each_document(share_key_value, sequence_info):
    layer = attention(15, 3, share_key_value=share_key_value, max_documents=3)
    check_against_each_document(layer, sequence_info)


def test_sums_that_are_the_tokens_make_full_attention():
    layer = attention(10, 10)
    layer.key_summary.assign(np.eye(10))
    layer.value_summary.assign(np.eye(10))
    full = full_twin(layer)
    x, sequence_info = floats(2, 10, D), padded(10, 10, to=10)
    np.testing.assert_allclose(
        layer(x, sequence_info), full(x, sequence_info), rtol=0, atol=1e-5
    )


def test_packed_is_alone():
    check_packed_is_alone(attention(40, 5, max_documents=4), 15, 3, 1, 16)


def test_a_crowded_row_is_nan_and_the_others_are_not():
    layer = attention(8, 2, max_documents=2)
    outputs = ops.convert_to_numpy(layer(floats(2, 6, D), packed([2, 2, 2], [3, 3])))
    assert np.isnan(outputs[0]).all()
    assert np.isfinite(outputs[1]).all()


def test_probabilities_can_be_read():
    layer = attention(20, 3, max_documents=2)
    with layer.probabilities.watch() as seen:
        layer(floats(1, 20, D), padded(20, to=20))
        layer(floats(1, 20, D), packed([12, 8]))
    alone, together = map(ops.convert_to_numpy, seen)
    assert alone.shape == (1, H, 20, 3)
    np.testing.assert_allclose(alone.sum(axis=-1), 1.0, rtol=1e-5)
    assert together.shape == (1, H, 20, 2 * 3)
    np.testing.assert_allclose(together[:, :, :12, :3].sum(axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(together[:, :, 12:, 3:].sum(axis=-1), 1.0, rtol=1e-5)


def test_dropout_is_of_the_probabilities_and_in_training_only():
    layer, x = attention(20, 3, dropout=0.5, seed=3), floats(1, 20, D)
    sequence_info = padded(20, to=20)
    at_rest = ops.convert_to_numpy(layer(x, sequence_info))
    np.testing.assert_array_equal(at_rest, layer(x, sequence_info, training=False))
    trained = ops.convert_to_numpy(layer(x, sequence_info, training=True))
    assert np.abs(trained - at_rest).max() > 0.1


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("sequence_info", [padded(0, to=20), packed([], padding=20)])
def test_an_empty_row_is_finite(policy, sequence_info):
    layer = attention(20, 3, dtype=policy)
    outputs = ops.convert_to_numpy(layer(floats(1, 20, D), sequence_info))
    assert np.isfinite(outputs.astype("float32")).all()


@tensorflow_only
def test_memory_grows_with_the_length():
    layer = attention(2048, 32)
    sizes = [largest_tensor(layer, length) for length in (512, 1024, 2048)]
    assert sizes == [length * H * 32 for length in (512, 1024, 2048)]


def test_a_text_longer_than_the_weights_is_refused():
    with pytest.raises(ValueError, match="inputs has 9 tokens; expected at most"):
        attention(8, 2)(floats(1, 9, D), padded(9, to=9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 9, "max_sequence_length": 8}, "rank=9 must be from 1"),
        ({"rank": 0}, "rank=0 must be from 1"),
        ({"max_documents": 0}, "max_documents=0"),
        ({"causal": True}, "causal=True"),
        ({"rotary": RotaryEmbedding()}, "rotary"),
        ({"score_bias": LinearBias(H)}, "score_bias"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        LowRankAttention(D, H, **options)
