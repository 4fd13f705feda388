"""Attention probabilities: the right numbers, and a model that is left as it was."""

from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from tests.model.conftest import VOCABULARY_SIZE, small_config
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
)
from transbeam.configs.schema.block import AlibiPositionConfig
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.encoder import build_encoder
from transbeam.model.inspect.attention_maps import attention_probabilities
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.probabilities import Probabilities
from transbeam.model.seq2seq import build_seq2seq

FIRST = "encoder_layer_0/self_attention"


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, VOCABULARY_SIZE, (2, 6))
    mask = np.array([[1] * 6, [1, 1, 1, 1, 0, 0]])
    return {"token_ids": ids.astype("int32"), "padding_mask": mask.astype("int32")}


def seams(model) -> list[Probabilities]:
    layers = (x for x in model._flatten_layers() if isinstance(x, Attention))
    return [layer.probabilities for layer in layers]


@pytest.mark.parametrize("key_heads", [4, 2])
def test_against_numpy(inputs, randomise, key_heads):
    config = small_config(
        num_segments=0,
        position=AlibiPositionConfig(),
        attention=FullAttentionConfig(num_heads=4, num_key_value_heads=key_heads),
    )
    model = randomise(build_encoder(config, VOCABULARY_SIZE))
    found = attention_probabilities(model, inputs)[FIRST]

    block = model.get_layer("encoder_layer_0")
    before = keras.Model(model.input, model.get_layer("embeddings_dropout").output)
    x = keras.ops.convert_to_numpy(before(inputs)).astype("float64")
    layer = block.self_attention

    def heads(projection, number):  # (B, T, D) to (B, H, T, 4)
        kernel, bias = (keras.ops.convert_to_numpy(w) for w in projection.weights)
        y = (x @ kernel + bias).reshape(2, 6, number, 4).transpose(0, 2, 1, 3)
        return y.repeat(4 // number, axis=1)

    query, key = heads(layer.query, 4), heads(layer.key, key_heads)
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(4)
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    positions = np.arange(6)
    distance = np.abs(positions[:, None] - positions[None, :])
    scores = scores - slopes[:, None, None] * distance
    scores = np.where(inputs["padding_mask"][:, None, None, :] == 1, scores, -np.inf)
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)

    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_seen_or_not_the_outputs_are_the_same(inputs, randomise):
    model = randomise(build_encoder(small_config(num_segments=0), VOCABULARY_SIZE))
    unseen = keras.ops.convert_to_numpy(model(inputs)["sequence_output"])
    first, second = seams(model)
    with first.watch(), second.watch():
        seen = keras.ops.convert_to_numpy(model(inputs)["sequence_output"])
    real = inputs["padding_mask"] == 1
    np.testing.assert_allclose(unseen[real], seen[real], atol=1e-5)


def test_nothing_is_left_behind(inputs):
    model = build_encoder(small_config(num_segments=0), VOCABULARY_SIZE)
    first = attention_probabilities(model, inputs)
    assert sorted(first) == [FIRST, "encoder_layer_1/self_attention"]
    assert not any(seam.watched for seam in seams(model))
    with pytest.raises(ValueError, match="token_ids"):
        attention_probabilities(model, {**inputs, "token_ids": np.ones((1, 2, 3))})
    assert not any(seam.watched for seam in seams(model))
    again = attention_probabilities(model, inputs)
    for path, map in first.items():
        np.testing.assert_array_equal(map, again[path])


def test_both_stacks_and_what_lies_between():
    config = Seq2SeqModelConfig(
        hidden_dim=8,
        num_layers=1,
        num_decoder_layers=1,
        attention=FullAttentionConfig(num_heads=2),
    )
    model = build_seq2seq(config, VOCABULARY_SIZE)
    inputs = {
        f"{side}_{name}": np.ones((1, length), "int32")
        for side, length in (("encoder", 5), ("decoder", 3))
        for name in ("token_ids", "padding_mask")
    }
    maps = attention_probabilities(model, inputs)
    assert {path: tuple(map.shape) for path, map in maps.items()} == {
        "encoder_layer_0/self_attention": (1, 2, 5, 5),
        "decoder_layer_0/self_attention": (1, 2, 3, 3),
        "decoder_layer_0/cross_attention": (1, 2, 3, 5),
    }
    for map in maps.values():
        np.testing.assert_allclose(keras.ops.sum(map, axis=-1), 1, rtol=1e-5)
    causal = np.triu(np.ones((3, 3)), 1) == 1
    own = keras.ops.convert_to_numpy(maps["decoder_layer_0/self_attention"])
    assert (own[:, :, causal] == 0).all()


@pytest.mark.parametrize(
    ("kind", "num_global", "shape"),
    [
        # 40 tokens in 2 blocks of 32; 3 blocks of keys and 1 global token.
        (
            GlobalWindowAttentionConfig(num_heads=2, window_size=40),
            1,
            (2, 1, 2, 32, 97),
        ),
        # 40 tokens in 5 blocks of 8; 3 near, first, last, and one that is drawn.
        (
            BlockSparseAttentionConfig(num_heads=2, block_size=8, num_random_blocks=1),
            16,
            (5, 1, 2, 8, 48),
        ),
    ],
    ids=["global window", "block sparse"],
)
def test_queries_that_see_everything_have_a_map_of_their_own(kind, num_global, shape):
    config = small_config(
        num_segments=0, num_layers=1, max_sequence_length=40, attention=kind
    )
    ids = np.ones((1, 40), "int32")
    model = build_encoder(config, VOCABULARY_SIZE)
    maps = attention_probabilities(model, {"token_ids": ids, "padding_mask": ids})
    assert sorted(maps) == [FIRST, f"{FIRST}/global"]
    some, whole = (keras.ops.convert_to_numpy(maps[path]) for path in sorted(maps))
    assert some.shape == shape
    np.testing.assert_allclose(some.sum(axis=-1), 1, rtol=1e-5)
    blocks, _, _, size, _ = shape
    assert whole.shape == (blocks, 1, 2, num_global, size)
    np.testing.assert_allclose(whole.sum(axis=(0, 4)), 1, rtol=1e-5)


def test_another_thread_does_not_see_the_watching(inputs):
    model = build_encoder(small_config(num_segments=0), VOCABULARY_SIZE)
    seam, _ = seams(model)
    with ThreadPoolExecutor(1) as other, seam.watch() as seen:
        assert seam.watched
        assert not other.submit(lambda: seam.watched).result()
        other.submit(model, inputs).result()
        assert not seen
        model(inputs)
    assert len(seen) == 1
