"""Models on whose graphs XLA's count is compared with ours."""

from typing import Any, NamedTuple

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
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
    ReZeroResidualConfig,
    RmsNormConfig,
    RopePositionConfig,
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
    SpanCorruptionConfig,
)
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ImageClassificationConfig,
    SpanQAConfig,
)
from transbeam.model.cost.stacks import Lengths

VOCABULARY_SIZE = 1_000
BATCH = 2


class Graph(NamedTuple):
    """A model, and what it reads."""

    config: Model
    objective: Objective
    lengths: Lengths


def _options(**changes: Any) -> dict[str, Any]:
    """Wide enough that products of matrices are most of the work, as in real models."""
    options: dict[str, Any] = {
        "num_layers": 1,
        "hidden_dim": 256,
        "max_sequence_length": 512,
        "attention": FullAttentionConfig(num_heads=4),
        "feedforward": DenseFeedForwardConfig(intermediate_dim=1024),
    }
    return {**options, **changes}


def _dense(activation: str, **options: Any) -> DenseFeedForwardConfig:
    return DenseFeedForwardConfig(
        intermediate_dim=1024, activation=activation, **options
    )


NO_BIAS = {"projection_bias": False, "output_bias": False}
TEXT = Lengths(tokens=128)
IMAGES = ImageClassificationConfig(labels=("a", "b"), image_size=32)
ATTENTIONS = {
    "window": SlidingWindowAttentionConfig(num_heads=4, window_size=128),
    "global_window": GlobalWindowAttentionConfig(
        num_heads=4, window_size=128, num_global_tokens=8
    ),
    # As many global tokens as the longest question, and more than half a window.
    "global_question": GlobalWindowAttentionConfig(
        num_heads=4,
        window_size=64,
        num_global_tokens=66,
        global_tokens="first_segment",
    ),
    "block_sparse": BlockSparseAttentionConfig(
        num_heads=4, block_size=32, num_random_blocks=2
    ),
    "low_rank": LowRankAttentionConfig(num_heads=4, rank=64),
    "kernel": KernelAttentionConfig(num_heads=4, num_features=64),
}

GRAPHS = {
    "bert": Graph(EncoderConfig(**_options(), num_segments=2), MaskedConfig(), TEXT),
    "alibi": Graph(
        EncoderConfig(
            **_options(position=AlibiPositionConfig(), feedforward=_dense("relu"))
        ),
        MaskedConfig(),
        TEXT,
    ),
    "albert": Graph(
        EncoderConfig(**_options(embedding_dim=128), num_segments=2),
        MaskedConfig(),
        TEXT,
    ),
    "narrow": Graph(
        DecoderConfig(**_options(embedding_dim=128), embeddings_norm=True),
        CausalConfig(),
        TEXT,
    ),
    "rezero": Graph(
        EncoderConfig(**_options(residual=ReZeroResidualConfig())), SpanQAConfig(), TEXT
    ),
    "attention_only": Graph(
        DecoderConfig(**_options(feedforward=NoFeedForwardConfig())),
        CausalConfig(),
        TEXT,
    ),
    "gpt2": Graph(
        DecoderConfig(**_options(feedforward=_dense("gelu_tanh"))), CausalConfig(), TEXT
    ),
    "llama": Graph(
        DecoderConfig(
            **_options(
                norm=RmsNormConfig(),
                position=RopePositionConfig(),
                attention=FullAttentionConfig(
                    num_heads=4, num_key_value_heads=2, **NO_BIAS
                ),
                feedforward=GatedFeedForwardConfig(intermediate_dim=688),
            ),
            tie_embeddings=False,
        ),
        CausalConfig(),
        TEXT,
    ),
    "t5": Graph(
        Seq2SeqModelConfig(
            **_options(
                norm=RmsNormConfig(),
                position=RelativeBiasPositionConfig(),
                attention=FullAttentionConfig(
                    num_heads=4, scale_scores=False, **NO_BIAS
                ),
                feedforward=_dense("relu", use_bias=False),
            )
        ),
        SpanCorruptionConfig(),
        Lengths(tokens=128, decoder_tokens=48),
    ),
    "vit": Graph(
        EncoderConfig(
            **_options(),
            patches=PatchesConfig(image_size=32, patch_size=4),
            pooler=PoolerConfig(),
        ),
        IMAGES,
        Lengths(tokens=65),
    ),
    "causal_window": Graph(
        DecoderConfig(**_options(attention=ATTENTIONS["window"])),
        CausalConfig(),
        Lengths(tokens=256),
    ),
    "causal_kernel": Graph(
        DecoderConfig(**_options(attention=ATTENTIONS["kernel"])),
        CausalConfig(),
        Lengths(tokens=256),
    ),
    **{
        name: Graph(
            EncoderConfig(**_options(attention=attention, feedforward=_dense("relu"))),
            SpanQAConfig(),
            Lengths(tokens=512),
        )
        for name, attention in ATTENTIONS.items()
    },
}
