"""The least important parts are removed, and the remaining ones compute the same."""

import keras
import numpy as np
import pytest

from tests.model.conftest import others_thorough
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.attention import (
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DenseFeedForwardConfig,
    DirectedAlibiPositionConfig,
    GatedFeedForwardConfig,
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Seq2SeqModelConfig,
)
from transbeam.model.adaptation.pruned_config import pruned_config
from transbeam.model.adaptation.structured_pruning import (
    OUTPUT,
    importances,
    part_widths,
    select_most_important,
    slice_weights,
)
from transbeam.model.decoder import build_decoder
from transbeam.model.encoder import build_encoder
from transbeam.model.seq2seq import build_seq2seq
from transbeam.model.weights.assign import assign, variable_shapes, variables_by_path

SMALL = {
    "num_layers": 2,
    "hidden_dim": 16,
    "max_sequence_length": 20,
    "dropout": 0.0,
    "feedforward": DenseFeedForwardConfig(intermediate_dim=12),
}
FOUR = {"num_heads": 4, "dropout": 0.0}
FULL = FullAttentionConfig(**FOUR)
GROUPS = FullAttentionConfig(**FOUR, num_key_value_heads=2)
GATED = GatedFeedForwardConfig(intermediate_dim=12, use_bias=True)
FIRST = "encoder_layer_0/self_attention"


# ------------------------------------------------------------- importance


def test_importance_by_hand():
    kernel = np.array([[1.0, 2.0], [0.5, 0.0], [3.0, -1.0], [0.0, 0.0]])
    gradient = np.array([[1.0, -2.0], [4.0, 7.0], [1.0, 1.0], [9.0, 9.0]])
    rows = importances(kernel, gradient)
    np.testing.assert_array_equal(rows, [3, 2, 2, 0])  # |1 - 4|, |2 + 0|, |3 - 1|, 0
    heads = importances(kernel, gradient, width=2)
    np.testing.assert_array_equal(heads, [1, 2])  # |-3 + 2|, |2 + 0|


@pytest.mark.parametrize("width", [1, 3])
def test_importance_is_the_gradient_by_a_gate(width):
    generator = np.random.default_rng(5)
    x, wanted = generator.normal(size=(7, 6)), generator.normal(size=(7, 4))
    kernel = generator.normal(size=(6, 4))

    def loss(gates):
        return np.sum((x * np.repeat(gates, width) @ kernel - wanted) ** 2)

    by_kernel = x.T @ (2.0 * (x @ kernel - wanted))
    step, ones = 1e-5, np.ones(6 // width)
    by_gate = [
        (loss(ones + step * one) - loss(ones - step * one)) / (2 * step)
        for one in np.eye(6 // width)
    ]
    found = importances(kernel, by_kernel, width)
    np.testing.assert_allclose(found, np.abs(by_gate), rtol=1e-5)


# ------------------------------------------------------------- choosing


def test_the_least_important_go_and_of_equals_the_last():
    worth = {
        FIRST: np.array([1.0, 5.0, 0.0, 2.0]),
        "encoder_layer_0/feedforward": np.ones(12),
    }
    old = EncoderConfig(**SMALL, attention=FULL)
    kept = select_most_important(
        worth, old, pruned_config(old, heads=2, intermediate=10)
    )
    assert kept == {FIRST: [1, 3], "encoder_layer_0/feedforward": [*range(10)]}
    kept = select_most_important(worth, old, pruned_config(old, intermediate=3))
    assert kept == {"encoder_layer_0/feedforward": [0, 1, 2]}


def test_as_many_stay_in_each_group():
    old = EncoderConfig(**SMALL, attention=GROUPS)
    worth = {FIRST: np.array([4.0, 3.0, 1.0, 2.0])}
    new = pruned_config(old, heads=2)
    assert select_most_important(worth, old, new) == {FIRST: [0, 3]}
    assert (new.attention.num_heads, new.attention.num_key_value_heads) == (2, 2)
    for heads in (1, 3):
        with pytest.raises(ConfigError, match=r"as many in each group\. Give 2, or a"):
            pruned_config(old, heads=heads)
    one = EncoderConfig(**SMALL, attention=FullAttentionConfig(num_key_value_heads=1))
    assert pruned_config(one, heads=3).attention.num_key_value_heads == 1


def test_heads_of_one_table_of_biases_go_together():
    old = Seq2SeqModelConfig(
        **SMALL, attention=FULL, position=RelativeBiasPositionConfig()
    )
    worth = {
        "encoder_layer_0/self_attention": np.array([9.0, 0.0, 5.0, 0.0]),
        "encoder_layer_1/self_attention": np.array([0.0, 1.0, 5.0, 0.0]),
        "decoder_layer_0/self_attention": np.array([0.0, 1.0, 2.0, 3.0]),
        "decoder_layer_0/cross_attention": np.array([3.0, 2.0, 1.0, 0.0]),
    }
    assert select_most_important(worth, old, pruned_config(old, heads=2)) == {
        "encoder_layer_0/self_attention": [0, 2],
        "encoder_layer_1/self_attention": [0, 2],
        "decoder_layer_0/self_attention": [2, 3],
        "decoder_layer_0/cross_attention": [0, 1],
    }


# ------------------------------------------------------------- what is left

MODELS = {
    "encoder": EncoderConfig(**SMALL, attention=FULL),
    "no bias": EncoderConfig(
        **SMALL,
        attention=FullAttentionConfig(**FOUR, projection_bias=False, output_bias=False),
    ),
    "head_dim": EncoderConfig(
        **SMALL,
        attention=FullAttentionConfig(num_heads=3, head_dim=7, num_key_value_heads=3),
    ),
    "narrow table": EncoderConfig(**SMALL, attention=FULL, embedding_dim=6),
    "decoder, groups, RoPE, gated": DecoderConfig(
        **{**SMALL, "feedforward": GATED},
        attention=GROUPS,
        position=RopePositionConfig(),
    ),
    "decoder, biases": DecoderConfig(
        **SMALL, attention=FULL, position=RelativeBiasPositionConfig(num_buckets=8)
    ),
    "seq2seq": Seq2SeqModelConfig(**SMALL, attention=FULL),
    "seq2seq, biases, groups": Seq2SeqModelConfig(
        **SMALL,
        num_decoder_layers=1,
        attention=FULL,
        decoder_attention=GROUPS,
        position=RelativeBiasPositionConfig(num_buckets=8),
    ),
    "window": EncoderConfig(
        **SMALL, attention=SlidingWindowAttentionConfig(**FOUR, window_size=4)
    ),
    "global tokens": EncoderConfig(
        **SMALL, attention=GlobalWindowAttentionConfig(**FOUR, window_size=4)
    ),
    "low rank": EncoderConfig(
        **SMALL, attention=LowRankAttentionConfig(**FOUR, rank=3)
    ),
    "kernel": EncoderConfig(
        **SMALL, attention=KernelAttentionConfig(num_heads=4, num_features=8)
    ),
    "blocks, none drawn": EncoderConfig(
        **SMALL,
        attention=BlockSparseAttentionConfig(**FOUR, block_size=2, num_random_blocks=0),
    ),
}


def build(config):
    builders = {
        EncoderConfig: build_encoder,
        DecoderConfig: build_decoder,
        Seq2SeqModelConfig: build_seq2seq,
    }
    return builders[type(config)](config, 40)


def answer(model):
    ids = np.arange(14, dtype="int32").reshape(2, 7)
    features = {
        name: ids if name.endswith("token_ids") else np.ones_like(ids)
        for name in model.input
        if not name.endswith("segment_ids")
    }
    outputs = model(features)
    return keras.ops.convert_to_numpy(outputs["sequence_output"])


THOROUGH = ("encoder", "decoder, biases", "seq2seq", "window", "blocks, none drawn")


@pytest.mark.parametrize(
    "name", others_thorough(MODELS, [name for name in MODELS if name not in THOROUGH])
)
def test_pruned_equals_zeroed(name, randomise):
    old = MODELS[name]
    new = pruned_config(old, heads=2, intermediate=7)
    model = randomise(build(old))
    values = {
        path: keras.ops.convert_to_numpy(w)
        for path, w in variables_by_path(model).items()
    }
    before = answer(model)
    widths, generator = part_widths(values, old), np.random.default_rng(3)
    worth = {
        part: generator.uniform(size=len(values[f"{part}/{OUTPUT}"]) // width)
        for part, width in widths.items()
    }
    kept = select_most_important(worth, old, new)
    assert set(kept) == set(widths)

    zeroed = dict(values)
    for part, left in kept.items():
        kernel = values[f"{part}/{OUTPUT}"].copy()
        gone = np.isin(np.arange(len(worth[part])), left, invert=True)
        kernel[np.repeat(gone, widths[part])] = 0.0
        zeroed[f"{part}/{OUTPUT}"] = kernel
    assign(model, zeroed.items())
    expected = answer(model)
    assert np.abs(expected - before).max() > 0.01

    smaller = build(new)
    assign(smaller, slice_weights(values, kept, old))
    assert smaller.count_params() < model.count_params()
    np.testing.assert_allclose(answer(smaller), expected, rtol=0, atol=1e-5)


def test_heads_or_units_alone():
    old = MODELS["seq2seq, biases, groups"]
    shapes = variable_shapes(build(old))
    values = {path: np.zeros(shape) for path, shape in shapes.items()}
    worth = {
        part: np.arange(len(values[f"{part}/{OUTPUT}"]) // width)
        for part, width in part_widths(values, old).items()
    }
    for asked in ({"heads": 2}, {"intermediate": 7}):
        new = pruned_config(old, **asked)
        taken = dict(slice_weights(values, select_most_important(worth, old, new), old))
        after = variable_shapes(build(new))
        assert {path: x.shape for path, x in taken.items()} == after
        changed = {path for path in shapes if shapes[path] != after[path]}
        of_units = {path for path in shapes if "/feedforward/" in path}
        assert changed
        assert changed <= of_units if "intermediate" in asked else changed - of_units


# ------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("config", "asked", "said"),
    [
        ({}, {}, "nothing is to go"),
        ({}, {"heads": 4}, "heads=4: model.attention.num_heads is 4, so nothing"),
        ({}, {"heads": 0}, "heads=0: one at least must be left"),
        ({}, {"intermediate": 12}, "model.feedforward.intermediate_dim is 12, so"),
        (
            {"feedforward": NoFeedForwardConfig()},
            {"intermediate": 3},
            "kind=none there are no units in between",
        ),
        (
            {"position": AlibiPositionConfig()},
            {"heads": 2, "intermediate": 3},
            "kind=alibi each head has a slope by its number.*Leave heads out",
        ),
        (
            {"position": DirectedAlibiPositionConfig()},
            {"heads": 2},
            "kind=directed_alibi",
        ),
        (
            {"attention": BlockSparseAttentionConfig(**FOUR, block_size=2)},
            {"heads": 2},
            "kind=block_sparse each head looks at blocks drawn",
        ),
    ],
)
def test_what_a_configuration_has_no_word_for_is_refused(config, asked, said):
    model = EncoderConfig(**{**SMALL, "attention": FULL, **config})
    with pytest.raises(ConfigError, match=said):
        pruned_config(model, **asked)


def test_heads_go_where_there_are_no_units():
    changes = {**SMALL, "attention": FULL, "feedforward": NoFeedForwardConfig()}
    old = DecoderConfig(**changes)
    new = pruned_config(old, heads=2)
    assert new.feedforward == old.feedforward
    part = "decoder_layer_0/self_attention"
    scores = {part: np.array([1.0, 4.0, 2.0, 3.0])}
    assert select_most_important(scores, old, new) == {part: [1, 3]}


def test_units_go_where_heads_cannot():
    model = EncoderConfig(**SMALL, attention=FULL, position=AlibiPositionConfig())
    smaller = pruned_config(model, intermediate=3)
    assert smaller.attention == model.attention
    assert smaller.feedforward.intermediate_dim == 3


def test_a_decoder_with_fewer_heads_than_asked_for_is_named():
    model = Seq2SeqModelConfig(
        **SMALL, attention=FULL, decoder_attention=FullAttentionConfig(num_heads=2)
    )
    with pytest.raises(ConfigError, match=r"model.decoder_attention.num_heads is 2"):
        pruned_config(model, heads=2)
