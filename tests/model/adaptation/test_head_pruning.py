"""Taking heads away = setting what they say to zero."""

import keras
import numpy as np
import pytest

from tests.model.block_stacks import logits, small_model
from tests.model.compiling import ON_JAX
from tests.model.conftest import others_thorough, small_config
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
    RelativeBiasPositionConfig,
    RopePositionConfig,
)
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.model.adaptation.head_pruning import attention_layers, prune_heads
from transbeam.model.adaptation.lora import enable_lora
from transbeam.model.encoder import build_encoder
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.seq2seq import build_seq2seq

FIRST, SECOND = "encoder_layer_0/self_attention", "encoder_layer_1/self_attention"


def zeroed(model, heads):
    """The same model; what some heads say does not reach the output."""
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    for path, gone in heads.items():
        layer = attention_layers(copy)[path]
        kernel = keras.ops.convert_to_numpy(layer.output_projection.kernel).copy()
        width = layer.head_dim
        for head in gone:
            kernel[head * width : (head + 1) * width] = 0
        layer.output_projection.kernel.assign(kernel)
    return copy


QUICK = ["head_dim", "groups", "one group", "alibi"]
# The attention, heads that go, and how many of queries and of keys are left.
ATTENTION = [
    ({"num_heads": 4}, {FIRST: [1, 3]}, [(2, 2), (4, 4)]),
    ({"num_heads": 4}, {FIRST: [0], SECOND: [0, 1, 2]}, [(3, 3), (1, 1)]),
    ({"num_heads": 3, "head_dim": 7}, {SECOND: {2}}, [(3, 3), (2, 2)]),
    # Of two groups of two: one head of each; a whole group.
    (
        {"num_heads": 4, "num_key_value_heads": 2},
        {FIRST: [1, 2], SECOND: [0, 1]},
        [(2, 2), (2, 1)],
    ),
    ({"num_heads": 4, "num_key_value_heads": 1}, {FIRST: [3]}, [(3, 1), (4, 1)]),
    (
        {"num_heads": 4, "projection_bias": False, "output_bias": False},
        {FIRST: [2]},
        [(3, 3), (4, 4)],
    ),
    (
        {"num_heads": 4, "score_bias": LinearBias(4, dtype="float32")},
        {FIRST: [0, 2]},
        [(2, 2), (4, 4)],
    ),
]


NAMES = ["half", "both layers", "head_dim", "groups", "one group", "no bias", "alibi"]


@pytest.mark.parametrize(
    "case",
    others_thorough(ATTENTION, [ATTENTION[NAMES.index(name)] for name in QUICK]),
    ids=NAMES,
)
def test_pruned_equals_zeroed(case, tmp_path):
    attention, heads, left = case
    model = small_model(num_layers=2, **attention)
    before = logits(model)
    pruned = prune_heads(model, heads)

    found = [
        (layer.num_heads, layer.num_key_value_heads)
        for layer in attention_layers(pruned).values()
    ]
    assert found == left
    assert pruned.count_params() < model.count_params()
    expected = logits(zeroed(model, heads))
    assert np.abs(expected - before).max() > 0.01
    np.testing.assert_allclose(logits(pruned), expected, atol=2e-6)
    np.testing.assert_array_equal(logits(model), before)

    pruned.save(tmp_path / "pruned.keras")
    copy = keras.saving.load_model(tmp_path / "pruned.keras")
    assert [w.path for w in copy.weights] == [w.path for w in pruned.weights]
    np.testing.assert_array_equal(logits(copy), logits(pruned))


OTHER_KINDS = {
    "T5's biases": {"position": RelativeBiasPositionConfig(num_buckets=8)},
    "RoPE": {"position": RopePositionConfig()},
    "window": {"attention": SlidingWindowAttentionConfig(num_heads=4, window_size=4)},
    "window and biases": {
        "attention": SlidingWindowAttentionConfig(num_heads=4, window_size=4),
        "position": RelativeBiasPositionConfig(num_buckets=8),
    },
    "global tokens": {
        "attention": GlobalWindowAttentionConfig(
            num_heads=4, window_size=4, num_global_tokens=1
        )
    },
    "low rank": {"attention": LowRankAttentionConfig(num_heads=4, rank=3)},
    "kernel": {"attention": KernelAttentionConfig(num_heads=4, num_features=8)},
}


@pytest.mark.parametrize(
    "options",
    others_thorough(
        OTHER_KINDS.values(),
        [OTHER_KINDS[name] for name in OTHER_KINDS if name not in ("RoPE", "window")],
    ),
    ids=OTHER_KINDS,
)
def test_pruned_equals_zeroed_in_other_kinds(options, randomise):
    options = {"attention": FullAttentionConfig(num_heads=4), **options}
    config = small_config(num_segments=0, **options)
    # A processor's products of other shapes add up in another order: what float32 is
    # off by then depends on the processor, and JAX has no float64 unless told to.
    dtype = "float32" if ON_JAX else "float64"
    model = randomise(build_encoder(config, 40, dtype=dtype))
    heads = {FIRST: [0, 2], SECOND: [3]}
    ones = np.ones((2, 7), "int32")
    inputs = {"token_ids": np.arange(14).reshape(2, 7), "padding_mask": ones}

    def answer(model):
        return keras.ops.convert_to_numpy(model(inputs)["sequence_output"])

    expected = answer(zeroed(model, heads))
    assert np.abs(expected - answer(model)).max() > 0.01
    np.testing.assert_allclose(answer(prune_heads(model, heads)), expected, atol=2e-6)


def test_heads_with_blocks_of_their_own_stay():
    config = small_config(
        num_segments=0, attention=BlockSparseAttentionConfig(num_heads=2, block_size=2)
    )
    with pytest.raises(ConfigError, match="blocks drawn for its number"):
        prune_heads(build_encoder(config, 40), {FIRST: [0]})


def test_heads_of_a_decoder_that_look_at_its_context():
    config = Seq2SeqModelConfig(
        num_layers=1, hidden_dim=8, attention=FullAttentionConfig(num_heads=4)
    )
    model = build_seq2seq(config, 20)
    heads = {
        "decoder_layer_0/cross_attention": [1],
        "encoder_layer_0/self_attention": [0],
    }
    inputs = {
        f"{side}_{name}": np.arange(1, 6, dtype="int32")[None]
        for side in ("encoder", "decoder")
        for name in ("token_ids", "padding_mask")
    }
    expected = zeroed(model, heads)(inputs)["logits"]
    found = prune_heads(model, heads)(inputs)["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_pruned_model_can_be_pruned_again():
    model = small_model(num_heads=4, score_bias=LinearBias(4, dtype="float32"))
    # What was head 3 is head 2 once head 0 is gone.
    twice = prune_heads(prune_heads(model, {FIRST: [0]}), {FIRST: [2]})
    once = prune_heads(model, {FIRST: [0, 3]})
    np.testing.assert_allclose(logits(twice), logits(once), atol=1e-6)


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ({"encoder_layer_9/self_attention": [0]}, "is no attention of this model"),
        ({FIRST: [4]}, "no head 4; it has 4"),
        ({FIRST: range(4)}, "all of its 4 heads would go"),
        ({FIRST: [0]}, "left are 1 of group 0, 2 of group 1"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(heads, said):
    model = small_model(num_heads=4, num_key_value_heads=2)
    with pytest.raises(ConfigError, match=said):
        prune_heads(model, heads)


def test_adapters_are_merged_first():
    model = small_model(num_heads=4)
    enable_lora(model, rank=2)
    with pytest.raises(ConfigError, match="has an adapter; merge it first"):
        prune_heads(model, {FIRST: [0]})
