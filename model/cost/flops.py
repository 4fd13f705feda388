"""FLOPs of a model for one sequence, counted without building it.

This module counts the FLOPs of the graph of `model/build.py`, in float32 and without
dropout, as XLA counts them before fusion: two FLOPs for each multiply-add of a matrix
product, one for each element of other operations, including comparisons and selections;
exponentials, tangents and roots do not count. Work done once per batch (the optimizer,
gradient sums of a shared table) is not counted, nor is the loss.
"""

from math import prod

from transbeam.configs.schema.attention import GlobalWindowAttentionConfig
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DirectedAlibiPositionConfig,
    GatedFeedForwardConfig,
    LearnedPositionConfig,
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
    RopePositionConfig,
    SinusoidalPositionConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    StackConfig,
)
from transbeam.configs.schema.objectives.language_modeling import (
    MaskedConfig,
    SentencePairsConfig,
)
from transbeam.configs.schema.objectives.objective import (
    Objective,
    TextObjective,
    VectorObjective,
)
from transbeam.model.cost.attention import attention_cost
from transbeam.model.cost.flop_count import Work, elementwise, products
from transbeam.model.cost.parameters import as_trained, scored_dim, scored_rows
from transbeam.model.cost.stacks import CostedStack, Lengths, model_stacks
from transbeam.model.cost.weight_shapes import head_shapes

# FLOPs per element of operations other than matrix products, forward and backward.
BIAS = (1, 1)
SUM = (1, 1)  # where two branches join; in the backward pass, where they split
NORMS = {"layer_norm": (7, 13), "rms_norm": (4, 9)}
# XLA computes the exact GELU's error function by polynomials, once for both passes.
ACTIVATIONS = {"gelu": (66, 10), "gelu_tanh": (8, 14), "relu": (1, 2), "silu": (4, 6)}
SCORE = (5, 6)  # the mask and the softmax
FEATURE = (4, 4)  # of kernel attention
PAIR = (7, 1)  # of a decoder's
ROTARY = (3, 3)
RESIDUALS = {"plain": (1, 1), "drop_path": (1, 1), "scaled": (2, 2), "rezero": (2, 4)}


def count_work(
    config: Model, objective: Objective, vocabulary_size: int, lengths: Lengths
) -> Work:
    """Counts the FLOPs of one sequence or pair, including the objective's head.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section; vocabulary logits are counted only at
            positions with a target.
        vocabulary_size: As in `count_parameters`. The logits of the table's padding
            rows are also computed, and discarded.
        lengths: Number of tokens, for the encoder and the decoder if there are both.

    Example:
    >>> from transbeam.configs.schema.objectives.language_modeling import CausalConfig
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> tiny = DecoderConfig(num_layers=1, hidden_dim=8)
    >>> work = count_work(tiny, CausalConfig(), 100, Lengths(tokens=10))
    >>> work.forward["logits"] == 2 * 10 * 8 * 100
    True
    """
    config = as_trained(config, objective)
    rows = scored_rows(config, vocabulary_size)
    sides = model_stacks(config, lengths)
    work = sum((_stack(side) for side in sides), Work())
    if isinstance(config, EncoderConfig):
        return work + _on_encoder(config, objective, rows, lengths)
    if not isinstance(objective, TextObjective):
        assert isinstance(config, DecoderConfig)
        return work + _task_head(config, objective, rows, lengths)
    tokens, width = sides[-1].tokens, scored_dim(config)
    if config.tie_embeddings and config.embedding_dim is not None:
        work += products("head", tokens * config.hidden_dim * width)
    return work + products("logits", tokens * width * rows)


def _stack(side: CostedStack) -> Work:
    """FLOPs from the ids to the last block's output."""
    config = side.config
    width = side.tokens * config.hidden_dim
    norm = elementwise(width, NORMS[config.norm.kind])
    block = self_attention(side) + feedforward(config, side.tokens)
    sub_layers = 1 + config.has_feedforward
    if side.context:
        block += _cross_attention(side)
        sub_layers += 1
    block += sub_layers * (norm + elementwise(width, RESIDUALS[config.residual.kind]))
    return side.num_layers * block + _around(config, side.tokens)


def _around(config: StackConfig, tokens: int) -> Work:
    """FLOPs of embeddings and of norms outside of the blocks; lookups cost nothing."""
    width = tokens * config.table_dim
    around = elementwise(width, (0, 1))
    if isinstance(config.position, LearnedPositionConfig | SinusoidalPositionConfig):
        around += elementwise(width, SUM)
    if isinstance(config, EncoderConfig) and config.num_segments:
        around += elementwise(width, SUM)
    if config.embedding_scale:
        around += elementwise(width, (1, 1))
    if config.has_embeddings_norm:
        around += elementwise(width, NORMS[config.norm.kind])
    wide = tokens * config.hidden_dim
    if config.embedding_dim is not None:
        around += products("head", width * config.hidden_dim)
        around += elementwise(wide, BIAS)
    if config.norm.placement == "pre":
        around += elementwise(wide, NORMS[config.norm.kind])
    return around


def self_attention(side: CostedStack) -> Work:
    """FLOPs of one self-attention for one sequence.

    Example:
    >>> from transbeam.configs.schema.attention import FullAttentionConfig
    >>> attention = FullAttentionConfig(num_heads=12)
    >>> bert = EncoderConfig(hidden_dim=768, attention=attention)
    >>> (side,) = model_stacks(bert, Lengths(tokens=512))
    >>> self_attention(side).forward["attention"] == 2 * 2 * 512 * 512 * 768
    True
    """
    attention, config = side.attention, side.config
    head_dim = config.head_dim(attention)
    reached = attention_cost(attention, head_dim, side.tokens, causal=side.causal)
    work = _projections(side, side.tokens)
    work += products("attention", reached.multiply_adds(attention, head_dim))
    work += products("attention", reached.drawn_products, gradients=1)
    work += elementwise(reached.features, FEATURE)
    work += elementwise(reached.pairs, PAIR)
    work += elementwise(reached.scores * attention.num_heads, _score(config))
    if isinstance(config.position, RopePositionConfig):
        work += elementwise(side.tokens * (side.queries + side.keys), ROTARY)
    if isinstance(attention, GlobalWindowAttentionConfig):
        # The global projections: keys and values of all tokens, queries of global ones.
        numbers = attention.num_global_tokens * side.queries
        numbers += 2 * side.tokens * side.keys
        work += products("projections", numbers * config.hidden_dim)
    return work


def _cross_attention(side: CostedStack) -> Work:
    pairs = side.tokens * side.context
    work = _projections(side, side.context)
    work += products("attention", 2 * pairs * side.queries)
    return work + elementwise(pairs * side.attention.num_heads, SCORE)


def _projections(side: CostedStack, context: int) -> Work:
    """FLOPs of projections: of queries, outputs, and a context's keys and values."""
    queries, keys = side.tokens * side.queries, context * side.keys
    width = side.config.hidden_dim
    work = products("projections", (2 * queries + 2 * keys) * width)
    # The scaling of queries, and the sum of three gradients in the backward pass.
    work += elementwise(queries, (1, 1)) + elementwise(context * width, (0, 2))
    if side.attention.projection_bias:
        work += elementwise(queries + 2 * keys, BIAS)
    if side.attention.output_bias:
        work += elementwise(side.tokens * width, BIAS)
    return work


def _score(config: StackConfig) -> tuple[int, int]:
    forward, backward = SCORE
    match config.position:
        case RelativeBiasPositionConfig():
            return forward + 1, backward + 1
        case AlibiPositionConfig() | DirectedAlibiPositionConfig():
            return forward + 1, backward
        case _:
            return SCORE


def feedforward(config: StackConfig, length: int) -> Work:
    """FLOPs of one feed-forward for one sequence; none in attention-only blocks.

    Example:
    >>> from transbeam.configs.schema.block import DenseFeedForwardConfig
    >>> wide = EncoderConfig(
    ...     hidden_dim=8, feedforward=DenseFeedForwardConfig(intermediate_dim=32)
    ... )
    >>> feedforward(wide, 10).forward["feedforward"] == 2 * 10 * (8 * 32 + 32 * 8)
    True
    """
    part, width = config.feedforward, config.hidden_dim
    if isinstance(part, NoFeedForwardConfig):
        return Work()
    wide = length * part.intermediate_dim
    into = 2 if isinstance(part, GatedFeedForwardConfig) else 1
    work = products("feedforward", (into + 1) * wide * width)
    work += elementwise(wide, ACTIVATIONS[part.activation])
    if isinstance(part, GatedFeedForwardConfig):
        # The product with the gate, and the sum of two gradients in the backward pass.
        work += elementwise(wide, (1, 2)) + elementwise(length * width, (0, 1))
    if part.use_bias:
        work += elementwise(into * wide + length * width, BIAS)
    return work


def _on_encoder(
    config: EncoderConfig,
    objective: Objective,
    rows: int,
    lengths: Lengths,
) -> Work:
    """Counts the FLOPs outside an encoder's stack: patches, poolers, heads."""
    width = config.hidden_dim
    work = Work()
    if config.patches is not None:
        patches = config.patches
        pixels = patches.image_size**2 * patches.num_channels
        # Pixels have no gradient.
        work += products("head", pixels * width, gradients=1)
    if isinstance(objective, MaskedConfig | SentencePairsConfig):
        predictions, scored = (
            objective.predictions_per_record(lengths.tokens),
            scored_dim(config),
        )
        work += products("head", predictions * width * scored)
        work += products("logits", predictions * scored * rows)
        work += elementwise(predictions * scored, ACTIVATIONS[config.head_activation])
        work += elementwise(predictions * scored, NORMS[config.norm.kind])
        work += elementwise(predictions * (scored + rows), BIAS)
    return work + _task_head(config, objective, rows, lengths)


def _task_head(
    config: EncoderConfig | DecoderConfig,
    objective: Objective,
    rows: int,
    lengths: Lengths,
) -> Work:
    """Counts the FLOPs of a projection of the pooled vector and of the last product."""
    work = Work()
    is_pooled = isinstance(objective, VectorObjective)
    if is_pooled and config.pooler is not None and config.pooler.projection:
        work += products("head", config.hidden_dim**2)
    # The head's dense layer reads one vector, or one of each token.
    read = 1 if is_pooled else lengths.tokens
    for path, shape in head_shapes(config, objective, rows).items():
        if not path.startswith("head_") and path.endswith("/kernel"):
            work += products("head", read * prod(shape))
    return work
