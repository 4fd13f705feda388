"""Weights counted by hand, their properties, and the published models' counts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    GatedFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    NoFeedForwardConfig,
    NoPositionConfig,
    RelativeBiasPositionConfig,
    ReZeroResidualConfig,
    RmsNormConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    PatchesConfig,
    PoolerConfig,
    Seq2SeqModelConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    MaskedConfig,
    SentencePairsConfig,
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.model.build import build_model
from transbeam.model.cost.parameters import (
    as_trained,
    count_parameters,
)
from transbeam.model.cost.weight_shapes import backbone_shapes, head_shapes

LABELS = ("a", "b", "c")
SMALL = {
    "num_layers": 2,
    "hidden_dim": 8,
    "max_sequence_length": 16,
    "feedforward": DenseFeedForwardConfig(intermediate_dim=12),
    "attention": FullAttentionConfig(num_heads=2),
}
NO_BIAS = {"projection_bias": False, "output_bias": False}


def bert(num_layers: int, width: int, heads: int, **changes) -> EncoderConfig:
    return EncoderConfig(
        num_layers=num_layers,
        hidden_dim=width,
        attention=FullAttentionConfig(num_heads=heads),
        feedforward=DenseFeedForwardConfig(intermediate_dim=4 * width),
        **{"num_segments": 2, "pooler": PoolerConfig(projection=True), **changes},
    )


def gpt(num_layers: int, width: int, heads: int, **changes) -> DecoderConfig:
    options = {"attention": FullAttentionConfig(num_heads=heads), **changes}
    return DecoderConfig(
        num_layers=num_layers,
        hidden_dim=width,
        feedforward=DenseFeedForwardConfig(intermediate_dim=4 * width),
        **{"max_sequence_length": 1024, **options},
    )


def t5(num_layers: int, width: int, heads: int, wide: int) -> Seq2SeqModelConfig:
    return Seq2SeqModelConfig(
        num_layers=num_layers,
        hidden_dim=width,
        vocabulary_multiple=128,
        norm=RmsNormConfig(),
        position=RelativeBiasPositionConfig(),
        attention=FullAttentionConfig(num_heads=heads, head_dim=64, **NO_BIAS),
        feedforward=DenseFeedForwardConfig(intermediate_dim=wide, use_bias=False),
    )


LLAMA = DecoderConfig(
    num_layers=32,
    hidden_dim=4096,
    norm=RmsNormConfig(),
    position=RopePositionConfig(),
    attention=FullAttentionConfig(num_heads=32, **NO_BIAS),
    feedforward=GatedFeedForwardConfig(intermediate_dim=11_008),
    tie_embeddings=False,
)
# ALBERT-base shares one block among its twelve, so it weighs as one of one block.
ALBERT_OF_A_BLOCK = bert(1, 768, 12, embedding_dim=128)
ROBERTA = {"num_segments": 1, "position": LearnedPositionConfig(offset=2)}


@pytest.mark.parametrize(
    ("config", "vocabulary_size", "published"),
    [
        (bert(12, 768, 12), 30_522, 109_482_240),
        (bert(24, 1024, 16), 30_522, 335_141_888),
        (bert(12, 768, 12, **ROBERTA), 50_265, 124_645_632),
        (bert(6, 768, 12, num_segments=0, pooler=None), 30_522, 66_362_880),
        (gpt(12, 768, 12), 50_257, 124_439_808),
        (gpt(24, 1024, 16), 50_257, 354_823_168),
        (gpt(36, 1280, 20), 50_257, 774_030_080),
        (gpt(48, 1600, 25), 50_257, 1_557_611_200),
        (t5(6, 512, 8, 2048), 32_100, 60_506_624),
        (t5(12, 768, 12, 3072), 32_100, 222_903_552),
        (LLAMA, 32_000, 6_738_415_616),
        (ALBERT_OF_A_BLOCK, 30_000, 11_683_584),
    ],
)
def test_published_counts_are_exact(config, vocabulary_size, published):
    assert sum(count_parameters(config, vocabulary_size).values()) == published


def test_a_small_encoder_by_hand():
    config = EncoderConfig(
        num_segments=2,
        norm=LayerNormConfig(placement="pre"),
        residual=ReZeroResidualConfig(),
        position=LearnedPositionConfig(offset=2),
        pooler=PoolerConfig(kind="attention", projection=True),
        vocabulary_multiple=64,
        **{
            **SMALL,
            "attention": GlobalWindowAttentionConfig(num_heads=2, window_size=4),
        },
    )
    assert count_parameters(config, 100) == {
        "token_embedding": 128 * 8,
        "segment_embedding": 2 * 8,
        "position_embedding": 18 * 8,
        "final_norm": 2 * 8,
        # Four projections, and three of global tokens.
        "encoder_layers/self_attention": 2 * 7 * (8 * 8 + 8),
        "encoder_layers/self_attention_norm": 2 * 2 * 8,
        "encoder_layers/self_attention_residual": 2,
        "encoder_layers/feedforward": 2 * (8 * 12 + 12 + 12 * 8 + 8),
        "encoder_layers/feedforward_norm": 2 * 2 * 8,
        "encoder_layers/feedforward_residual": 2,
        "pooling": 8,
        "pooler": 8 * 8 + 8,
    }


def test_a_small_pair_of_stacks_by_hand():
    config = Seq2SeqModelConfig(
        num_decoder_layers=3,
        norm=RmsNormConfig(placement="pre"),
        position=RelativeBiasPositionConfig(),
        tie_embeddings=False,
        **{
            **SMALL,
            "feedforward": GatedFeedForwardConfig(intermediate_dim=12, use_bias=True),
            "attention": FullAttentionConfig(
                num_heads=2, num_key_value_heads=1, head_dim=6
            ),
        },
    )
    attention = 8 * 12 + 12 + 2 * (8 * 6 + 6) + 12 * 8 + 8
    feedforward = 2 * (8 * 12 + 12) + 12 * 8 + 8
    assert count_parameters(config, 100) == {
        "token_embedding": 800,
        "logits": 800,
        "encoder_relative_bias": 64,
        "encoder_final_norm": 8,
        "encoder_layers/self_attention": 2 * attention,
        "encoder_layers/self_attention_norm": 2 * 8,
        "encoder_layers/feedforward": 2 * feedforward,
        "encoder_layers/feedforward_norm": 2 * 8,
        "decoder_relative_bias": 64,
        "decoder_final_norm": 8,
        "decoder_layers/self_attention": 3 * attention,
        "decoder_layers/self_attention_norm": 3 * 8,
        "decoder_layers/cross_attention": 3 * attention,
        "decoder_layers/cross_attention_norm": 3 * 8,
        "decoder_layers/feedforward": 3 * feedforward,
        "decoder_layers/feedforward_norm": 3 * 8,
    }


def test_a_narrow_table_by_hand():
    narrow = DecoderConfig(**SMALL, embedding_dim=3, embeddings_norm=True)
    parts, plain = (
        count_parameters(replace(narrow, embedding_dim=width), 100)
        for width in (3, None)
    )
    around = {
        "token_embedding": 100 * 3,
        "embedding_projection": 3 * 8 + 8,
        "position_embedding": 16 * 3,
        "embeddings_norm": 2 * 3,
        "logits_projection": 8 * 3,
    }
    assert parts == {**plain, **around}
    untied = count_parameters(replace(narrow, tie_embeddings=False), 100)
    del around["logits_projection"]
    assert untied == {**plain, **around, "logits": 8 * 100}


@given(layers=st.integers(1, 9), more=st.integers(1, 9))
def test_each_further_layer_costs_the_same(layers, more):
    def total(num_layers):
        config = EncoderConfig(**{**SMALL, "num_layers": num_layers})
        return sum(count_parameters(config, 100).values())

    assert total(layers + more) - total(layers) == more * (total(2) - total(1))


def test_layers_beyond_any_memory_are_counted_too():
    """Files of others may ask for them, and are refused by this count."""
    layers = 10**12
    config = EncoderConfig(**{**SMALL, "num_layers": layers})
    assert count_parameters(config, 100)["encoder_layers/feedforward_norm"] == (
        layers * 2 * 8
    )


@given(groups=st.sampled_from([1, 2, 4]), bias=st.booleans())
def test_shared_heads_take_away_from_keys_and_values_alone(groups, bias):
    def parts(key_value_heads):
        attention = FullAttentionConfig(
            num_heads=4, num_key_value_heads=key_value_heads, projection_bias=bias
        )
        return count_parameters(DecoderConfig(hidden_dim=32, attention=attention), 100)

    shared, own = parts(groups), parts(4)
    saved = own.pop("decoder_layers/self_attention") - shared.pop(
        "decoder_layers/self_attention"
    )
    assert saved == 4 * 2 * (4 - groups) * 8 * (32 + bias)
    assert shared == own


@given(vocabulary_size=st.integers(1, 3000), multiple=st.sampled_from([1, 8, 64, 128]))
def test_vocabulary_is_rounded_up(vocabulary_size, multiple):
    config = DecoderConfig(
        hidden_dim=1,
        vocabulary_multiple=multiple,
        attention=FullAttentionConfig(num_heads=1),
    )
    rows = count_parameters(config, vocabulary_size)["token_embedding"]
    assert rows % multiple == 0
    assert 0 <= rows - vocabulary_size < multiple


# --------------------------------------------------------- equal to built models

ATTENTIONS = [
    FullAttentionConfig(num_heads=4, num_key_value_heads=2, head_dim=6, **NO_BIAS),
    SlidingWindowAttentionConfig(num_heads=2, window_size=4),
    GlobalWindowAttentionConfig(num_heads=2, window_size=4, num_global_tokens=2),
    BlockSparseAttentionConfig(num_heads=2, block_size=4, num_random_blocks=1),
    LowRankAttentionConfig(num_heads=2, rank=3),
    LowRankAttentionConfig(num_heads=2, rank=3, share_key_value=True),
    KernelAttentionConfig(num_heads=2, num_features=8),
    KernelAttentionConfig(num_heads=2, feature_map="elu"),
]
SOCKETS = [
    {"position": NoPositionConfig(), "norm": RmsNormConfig()},
    {"position": SinusoidalPositionConfig(), "embedding_scale": True},
    {
        "position": RelativeBiasPositionConfig(),
        "norm": LayerNormConfig(placement="pre"),
    },
    {"position": AlibiPositionConfig(), "embeddings_norm": False},
    {"position": RopePositionConfig(), "residual": ReZeroResidualConfig()},
    {
        "position": LearnedPositionConfig(offset=2),
        "feedforward": GatedFeedForwardConfig(intermediate_dim=12),
        "vocabulary_multiple": 64,
        "norm": RmsNormConfig(placement="post"),
    },
    {
        "feedforward": DenseFeedForwardConfig(intermediate_dim=12, use_bias=False),
        "norm": LayerNormConfig(placement="pre"),
        "embeddings_norm": True,
    },
    {"embedding_dim": 3, "norm": LayerNormConfig(placement="post")},
    {"embedding_dim": 8, "position": SinusoidalPositionConfig()},
    {"feedforward": NoFeedForwardConfig(), "residual": ReZeroResidualConfig()},
]
TASKS = [
    (EncoderConfig(**{**SMALL, "feedforward": NoFeedForwardConfig()}), MaskedConfig()),
    (EncoderConfig(**SMALL, num_segments=2, embedding_dim=3), MaskedConfig()),
    (
        EncoderConfig(**SMALL, pooler=PoolerConfig(projection=True), embedding_dim=3),
        SentencePairsConfig(),
    ),
    (
        Seq2SeqModelConfig(**SMALL, embedding_dim=3, embeddings_norm=True),
        SpanCorruptionConfig(),
    ),
    (EncoderConfig(**SMALL, pooler=PoolerConfig(projection=True)), MaskedConfig()),
    (
        EncoderConfig(**SMALL, num_segments=2, pooler=PoolerConfig(projection=True)),
        SentencePairsConfig(),
    ),
    (
        EncoderConfig(**SMALL, num_segments=1, pooler=PoolerConfig(kind="attention")),
        ClassificationConfig(labels=LABELS),
    ),
    (EncoderConfig(**SMALL, pooler=PoolerConfig(projection=True)), RegressionConfig()),
    (EncoderConfig(**SMALL), TokenClassificationConfig(labels=LABELS)),
    (EncoderConfig(**SMALL, num_segments=2), SpanQAConfig()),
    (
        EncoderConfig(
            **{**SMALL, "max_sequence_length": 17},
            patches=PatchesConfig(image_size=8, patch_size=2, num_channels=1),
        ),
        ImageClassificationConfig(labels=LABELS, image_size=8, channels=1),
    ),
    (Seq2SeqModelConfig(**SMALL, num_decoder_layers=1), SpanCorruptionConfig()),
    (DecoderConfig(**SMALL), ClassificationConfig(labels=LABELS)),
    (
        DecoderConfig(
            **SMALL,
            embedding_dim=3,
            pooler=PoolerConfig(kind="attention", projection=True),
        ),
        RegressionConfig(),
    ),
    (
        DecoderConfig(
            **SMALL,
            tie_embeddings=False,
            pooler=PoolerConfig(kind="mean", projection=True),
        ),
        TokenClassificationConfig(labels=LABELS),
    ),
]
CASES = [
    *((EncoderConfig(**{**SMALL, "attention": kind}), MaskedConfig())
      for kind in ATTENTIONS),
    *((DecoderConfig(**{**SMALL, **sockets}), CausalConfig()) for sockets in SOCKETS),
    *((Seq2SeqModelConfig(**{**SMALL, **sockets}, tie_embeddings=False),
       SpanCorruptionConfig()) for sockets in SOCKETS),
    *TASKS,
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "objective"),
    CASES,
    ids=lambda part: getattr(getattr(part, "attention", part), "kind", None),
)
def test_weights_are_those_of_the_built_model(config: Model, objective):
    model = build_model(config, objective, 40)
    counted = backbone_shapes(as_trained(config, objective), 40, objective)
    counted |= head_shapes(config, objective, 40)
    assert counted == {w.path: tuple(w.shape) for w in model.trainable_weights}


def test_pooler_is_left_out_where_nothing_is_pooled():
    config = EncoderConfig(**SMALL, pooler=PoolerConfig(projection=True))
    assert as_trained(config, MaskedConfig()) == replace(config, pooler=None)
    assert as_trained(config, SentencePairsConfig()) == config
