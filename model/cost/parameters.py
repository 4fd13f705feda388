"""How many weights a model has, part by part, without building it.

The parts are named as the weights' paths begin, with all blocks of a stack together:
`encoder_layers/self_attention` is what the `encoder_layer_{i}/self_attention/...` have.
"""

from collections import Counter
from dataclasses import replace
from typing import assert_never

from configs.attention import (
    Attention,
    BlockSparseAttention,
    FullAttention,
    GlobalWindowAttention,
    KernelAttention,
    LowRankAttention,
    SlidingWindowAttention,
)
from configs.language_modelling import MaskedConfig, SentencePairsConfig
from configs.model import DecoderConfig, EncoderConfig, Model, Seq2SeqConfig, Stack
from configs.objective import Objective
from configs.sockets import (
    DenseFeedForward,
    GatedFeedForward,
    LayerNorm,
    LearnedPosition,
    RelativeBiasPosition,
    ReZeroResidual,
)
from configs.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from model.cost.sides import decoder_attention

# Objectives that ask for the class of a whole row.
Classification = (
    ClassificationConfig,
    PairClassificationConfig,
    ImageClassificationConfig,
)
# And those that ask for a number.
Regression = (RegressionConfig, PairRegressionConfig)


def count_parameters(config: Model, vocabulary_size: int) -> dict[str, int]:
    """Counts the weights of a backbone: no head but a decoder's own scores.

    An encoder's pooler belongs to it. A table that serves as embedding and as scores
    counts once.

    Args:
        config: The `model` section of a run.
        vocabulary_size: How many tokens there are, before they are rounded up to
            `vocabulary_multiple`. Without effect for images.

    Returns:
        Weights by part; parts without weights are left out.

    Example:
    >>> from configs.model import Pooler
    >>> bert = EncoderConfig(
    ...     num_layers=12, hidden_dim=768, num_segments=2,
    ...     attention=FullAttention(num_heads=12),
    ...     feedforward=DenseFeedForward(intermediate_dim=3072),
    ...     pooler=Pooler(projection=True),
    ... )
    >>> parts = count_parameters(bert, 30_522)
    >>> parts["encoder_layers/feedforward"], sum(parts.values())
    (56669184, 109482240)
    """
    match config:
        case EncoderConfig():
            parts = _encoder(config, vocabulary_size)
        case DecoderConfig():
            parts = _decoder(config, vocabulary_size)
        case Seq2SeqConfig():
            parts = _seq2seq(config, vocabulary_size)
        case _:
            assert_never(config)
    return {name: count for name, count in parts.items() if count}


def count_head(
    config: Model, objective: Objective, vocabulary_size: int
) -> dict[str, int]:
    """Counts what an objective puts on top of the backbone.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section.
        vocabulary_size: As for `count_parameters`.

    Returns:
        Weights by part; empty for a model that scores tokens by itself.

    Example:
    >>> from configs.language_modelling import MaskedConfig
    >>> count_head(EncoderConfig(hidden_dim=8), MaskedConfig(), 100)
    {'head_dense': 72, 'head_norm': 16, 'head_bias': 100}
    """
    width = config.hidden_dim
    masked = {
        "head_dense": dense(width, width),
        "head_norm": norm_parameters(config),
        "head_bias": vocabulary_size,
    }
    match objective:
        case MaskedConfig():
            return masked
        case SentencePairsConfig():
            return {**masked, "pair_classifier": dense(width, 2)}
        case SpanQAConfig():
            return {"span_classifier": dense(width, 2)}
        case TokenClassificationConfig(labels=labels):
            return {"token_classifier": dense(width, len(labels))}
        case _ if isinstance(objective, Classification):
            return {"classifier": dense(width, len(objective.labels))}
        case _ if isinstance(objective, Regression):
            return {"regressor": dense(width, 1)}
        case _:
            return {}


def as_trained(config: Model, objective: Objective) -> Model:
    """The config of what a run trains: without a pooler that its objective leaves out.

    Example:
    >>> from configs.language_modelling import MaskedConfig
    >>> from configs.model import Pooler
    >>> as_trained(EncoderConfig(pooler=Pooler()), MaskedConfig()).pooler is None
    True
    """
    pooled = (SentencePairsConfig, *Classification, *Regression)
    is_pooled = isinstance(objective, pooled)
    if isinstance(config, EncoderConfig) and not is_pooled:
        return replace(config, pooler=None)
    return config


def dense(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Weights of a dense layer.

    Example:
    >>> dense(4, 3), dense(4, 3, bias=False)
    (15, 12)
    """
    return (inputs + bias) * outputs


def table_rows(config: Model, vocabulary_size: int) -> int:
    """Rows of the token embedding: the vocabulary, rounded up.

    Example:
    >>> table_rows(DecoderConfig(vocabulary_multiple=128), 32_100)
    32128
    """
    multiple = config.vocabulary_multiple
    return -(-vocabulary_size // multiple) * multiple


def scored_rows(config: Model, vocabulary_size: int) -> int:
    """How many tokens are scored: a tied table's padding is scored, then cut off.

    Example:
    >>> scored_rows(DecoderConfig(vocabulary_multiple=128), 32_100)
    32128
    >>> scored_rows(
    ...     DecoderConfig(vocabulary_multiple=128, tie_embeddings=False), 32_100
    ... )
    32100
    """
    if isinstance(config, EncoderConfig) or config.tie_embeddings:
        return table_rows(config, vocabulary_size)
    return vocabulary_size


def _encoder(config: EncoderConfig, vocabulary_size: int) -> Counter[str]:
    parts: Counter[str] = Counter()
    width = config.hidden_dim
    if config.patches is None:
        parts["token_embedding"] = table_rows(config, vocabulary_size) * width
    else:
        patches = config.patches
        pixels = patches.patch_size**2 * patches.num_channels
        parts["patch_embedding"] = dense(pixels, width)
        parts["class_token"] = width
    parts["segment_embedding"] = config.num_segments * width
    parts += _stack(config, config.num_layers, config.attention, "encoder")
    if config.pooler is not None:
        parts["pooling"] = width if config.pooler.kind == "attention" else 0
        parts["pooler"] = dense(width, width) if config.pooler.projection else 0
    return parts


def _decoder(config: DecoderConfig, vocabulary_size: int) -> Counter[str]:
    parts = _tables(config, vocabulary_size)
    parts += _stack(config, config.num_layers, config.attention, "decoder")
    return parts


def _seq2seq(config: Seq2SeqConfig, vocabulary_size: int) -> Counter[str]:
    parts = _tables(config, vocabulary_size)
    encoder = _stack(config, config.num_layers, config.attention, "encoder", pair=True)
    decoder = _stack(
        config, config.decoder_layers, decoder_attention(config), "decoder", pair=True
    )
    return parts + encoder + decoder


def _tables(
    config: DecoderConfig | Seq2SeqConfig, vocabulary_size: int
) -> Counter[str]:
    """A table of tokens to read them, and another to score them unless tied."""
    width = config.hidden_dim
    scores = 0 if config.tie_embeddings else vocabulary_size * width
    size = table_rows(config, vocabulary_size) * width
    return Counter({"token_embedding": size, "logits": scores})


def _stack(
    config: Stack,
    num_layers: int,
    attention: Attention,
    side: str,
    *,
    pair: bool = False,
) -> Counter[str]:
    """A stack from its places to its final norm.

    Args:
        config: The model's.
        num_layers: Blocks of the stack.
        attention: The stack's own.
        side: `"encoder"` or `"decoder"`.
        pair: Whether it is one of two; then the decoder looks at the encoder.
    """
    width, norm = config.hidden_dim, norm_parameters(config)
    prefix = f"{side}_" if pair else ""
    parts: Counter[str] = Counter()
    match config.position:
        case LearnedPosition(offset=offset):
            rows = offset + config.max_sequence_length
            parts[f"{prefix}position_embedding"] = rows * width
        case RelativeBiasPosition(num_buckets=num_buckets):
            parts[f"{prefix}relative_bias"] = num_buckets * attention.num_heads
        case _:
            pass
    if config.has_embeddings_norm:
        parts[f"{prefix}embeddings_norm"] = norm

    sub_layers = {"self_attention": attention_parameters(config, attention)}
    if pair and side == "decoder":
        sub_layers["cross_attention"] = projections(config, attention)
    sub_layers["feedforward"] = feedforward_parameters(config)
    scale = 1 if isinstance(config.residual, ReZeroResidual) else 0
    for name, count in sub_layers.items():
        parts[f"{side}_layers/{name}"] = num_layers * count
        parts[f"{side}_layers/{name}_norm"] = num_layers * norm
        parts[f"{side}_layers/{name}_residual"] = num_layers * scale
    if config.norm.placement == "pre":
        parts[f"{prefix}final_norm"] = norm
    return parts


def norm_parameters(config: Stack) -> int:
    """Weights of one norm: `gamma`, and a LayerNorm's `beta`."""
    return (2 if isinstance(config.norm, LayerNorm) else 1) * config.hidden_dim


def feedforward_parameters(config: Stack) -> int:
    """Weights of one feed-forward."""
    feedforward, width = config.feedforward, config.hidden_dim
    wide, bias = feedforward.intermediate_dim, feedforward.use_bias
    match feedforward:
        case DenseFeedForward():
            into = dense(width, wide, bias=bias)
        case GatedFeedForward():
            into = 2 * dense(width, wide, bias=bias)
        case _:
            assert_never(feedforward)
    return into + dense(wide, width, bias=bias)


def projections(config: Stack, attention: Attention) -> int:
    """Weights of queries, keys, values and the output."""
    width, head = config.hidden_dim, config.head_dim(attention)
    heads = attention.num_heads + 2 * attention.key_value_heads
    into = dense(width, heads * head, bias=attention.projection_bias)
    out = dense(attention.num_heads * head, width, bias=attention.output_bias)
    return into + out


def attention_parameters(config: Stack, attention: Attention) -> int:
    """Weights of one self-attention."""
    count = projections(config, attention)
    match attention:
        case GlobalWindowAttention():
            # Queries, keys and values of global tokens are projected on their own.
            heads = attention.num_heads + 2 * attention.key_value_heads
            own = heads * config.head_dim(attention)
            return count + dense(config.hidden_dim, own, bias=attention.projection_bias)
        case LowRankAttention(rank=rank, share_key_value=share_key_value):
            summary = config.max_sequence_length * rank
            return count + (summary if share_key_value else 2 * summary)
        case (
            FullAttention()
            | SlidingWindowAttention()
            | BlockSparseAttention()
            | KernelAttention()  # random features are drawn, not learned
        ):
            return count
        case _:
            assert_never(attention)
