"""Shapes of a model's weights, by path, without building it.

Paths are those of the built model, such as
`encoder_layer_0/self_attention/query/kernel`, so patterns of `training.adaptation`
match the same weights.
"""

from typing import assert_never

from transbeam.configs.schema.attention import (
    Attention,
    BlockSparseAttentionConfig,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)
from transbeam.configs.schema.block import (
    DenseFeedForwardConfig,
    GatedFeedForwardConfig,
    LayerNormConfig,
    LearnedPositionConfig,
    NoFeedForwardConfig,
    RelativeBiasPositionConfig,
    ReZeroResidualConfig,
)
from transbeam.configs.schema.model import (
    DecoderConfig,
    EncoderConfig,
    Model,
    PoolerConfig,
    Seq2SeqModelConfig,
    StackConfig,
)
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    FillsObjective,
    LabeledObjective,
    NumericObjective,
    Objective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
    VectorObjective,
)
from transbeam.model.cost.stacks import decoder_attention

Shapes = dict[str, tuple[int, ...]]


def backbone_shapes(
    config: Model, vocabulary_size: int, objective: Objective | None = None
) -> Shapes:
    """Shapes of a backbone's weights, with a decoder's output layer but no task head.

    Args:
        config: The `model` section of a run.
        vocabulary_size: Number of tokens, not yet rounded up to `vocabulary_multiple`.
            Ignored for image models.
        objective: The `objective` section, if there is one: a decoder with a task head
            has no output layer.

    Example:
    >>> shapes = backbone_shapes(EncoderConfig(num_layers=1, hidden_dim=8), 100)
    >>> shapes["token_embedding/embeddings"]
    (100, 8)
    >>> shapes["encoder_layer_0/self_attention/query/kernel"]
    (8, 8)
    """
    shapes: Shapes = {}
    layers = count_blocks(config)
    blocks: dict[str, Shapes] = {part: {} for part in layers}
    for path, shape in shapes_by_part(config, vocabulary_size, objective).items():
        part, _, inner = path.partition("/")
        if part in layers:
            blocks[part][inner] = shape
        else:
            shapes[path] = shape
    for part, count in layers.items():
        for number in range(count):
            shapes |= _under(f"{part.removesuffix('s')}_{number}", blocks[part])
    return shapes


def count_blocks(config: Model) -> dict[str, int]:
    """Counts the blocks of each stack of a model.

    Example:
    >>> count_blocks(Seq2SeqModelConfig(num_layers=6, num_decoder_layers=3))
    {'encoder_layers': 6, 'decoder_layers': 3}
    """
    match config:
        case EncoderConfig():
            return {"encoder_layers": config.num_layers}
        case DecoderConfig():
            return {"decoder_layers": config.num_layers}
        case Seq2SeqModelConfig():
            return {
                "encoder_layers": config.num_layers,
                "decoder_layers": config.decoder_layers,
            }
        case _:
            assert_never(config)


def shapes_by_part(
    config: Model, vocabulary_size: int, objective: Objective | None = None
) -> Shapes:
    """Shapes of a backbone's weights, with one block in place of all blocks of a stack.

    Args:
        config: The `model` section of a run.
        vocabulary_size: As in `backbone_shapes`.
        objective: As in `backbone_shapes`.

    Example:
    >>> shapes = shapes_by_part(EncoderConfig(hidden_dim=8), 100)
    >>> shapes["encoder_layers/self_attention/query/kernel"]
    (8, 8)
    """
    match config:
        case EncoderConfig():
            return _encoder(config, vocabulary_size)
        case DecoderConfig():
            return _decoder(config, vocabulary_size, objective)
        case Seq2SeqModelConfig():
            return _seq2seq(config, vocabulary_size)
        case _:
            assert_never(config)


def head_shapes(config: Model, objective: Objective, vocabulary_size: int) -> Shapes:
    """Shapes of the weights of an objective's head.

    Args:
        config: The `model` section of a run.
        objective: The `objective` section.
        vocabulary_size: As in `backbone_shapes`.

    Returns:
        Shapes by path; empty for a model whose backbone computes the logits, or whose
        pooled vectors are its outputs.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import SpanQAConfig
    >>> head_shapes(EncoderConfig(hidden_dim=8), SpanQAConfig(), 100)
    {'span_classifier/kernel': (8, 2), 'span_classifier/bias': (2,)}
    """
    width = config.hidden_dim
    masked = {
        **_dense("head_dense", width, config.table_dim),
        **_norm("head_norm", config, config.table_dim),
        "head_bias/bias": (vocabulary_size,),
    }
    if isinstance(objective, FillsObjective):
        return masked
    if isinstance(objective, SentencePairsConfig):
        return masked | _dense("pair_classifier", width, 2)
    # On a decoder as in GPT.
    bias = not isinstance(config, DecoderConfig)
    if isinstance(objective, LabeledObjective):
        return _dense("classifier", width, len(objective.labels), bias=bias)
    if isinstance(objective, NumericObjective):
        return _dense("regressor", width, 1, bias=bias)
    if isinstance(objective, TokenChoiceObjective):
        return _dense("token_classifier", width, len(objective.labels))
    if isinstance(objective, SpanObjective):
        return _dense("span_classifier", width, 2)
    if isinstance(objective, TextObjective | EmbeddingObjective):
        return {}
    assert_never(objective)


def table_rows(config: StackConfig, vocabulary_size: int) -> int:
    """Number of rows of the token embedding: the vocabulary size, rounded up.

    Example:
    >>> table_rows(DecoderConfig(vocabulary_multiple=128), 32_100)
    32128
    """
    multiple = config.vocabulary_multiple
    return -(-vocabulary_size // multiple) * multiple


def _encoder(config: EncoderConfig, vocabulary_size: int) -> Shapes:
    width = config.hidden_dim
    if config.patches is None:
        shapes = _tokens(config, vocabulary_size)
    else:
        patches = config.patches
        pixels = patches.patch_size**2 * patches.num_channels
        shapes = _dense("patch_embedding", pixels, width)
        shapes |= _table("class_token", 1, width)
    if config.num_segments:
        shapes |= _table("segment_embedding", config.num_segments, config.table_dim)
    shapes |= _stack(config, config.attention, "encoder")
    return shapes | _pooler(config.pooler, width)


def _decoder(
    config: DecoderConfig, vocabulary_size: int, objective: Objective | None
) -> Shapes:
    stack = _stack(config, config.attention, "decoder")
    if objective is None or isinstance(objective, TextObjective):
        return _tables(config, vocabulary_size) | stack
    shapes = _tokens(config, vocabulary_size) | stack
    if isinstance(objective, VectorObjective):
        shapes |= _pooler(config.pooler, config.hidden_dim)
    return shapes


def _pooler(pooler: PoolerConfig | None, width: int) -> Shapes:
    if pooler is None:
        return {}
    query = {"pooling/query": (width,)} if pooler.kind == "attention" else {}
    return query | (_dense("pooler", width, width) if pooler.projection else {})


def _seq2seq(config: Seq2SeqModelConfig, vocabulary_size: int) -> Shapes:
    encoder = _stack(config, config.attention, "encoder", pair=True)
    decoder = _stack(config, decoder_attention(config), "decoder", pair=True)
    return _tables(config, vocabulary_size) | encoder | decoder


def _tables(config: DecoderConfig | Seq2SeqModelConfig, vocabulary_size: int) -> Shapes:
    """Shapes of the token embedding, and of the output matrix unless it is tied."""
    width = config.hidden_dim
    shapes = _tokens(config, vocabulary_size)
    if not config.tie_embeddings:
        shapes |= _dense("logits", width, vocabulary_size, bias=False)
    elif config.embedding_dim is not None:
        shapes |= _dense("logits_projection", width, config.embedding_dim, bias=False)
    return shapes


def _tokens(config: StackConfig, vocabulary_size: int) -> Shapes:
    """Shapes of the token embedding, and of its projection if it is narrow."""
    width = config.table_dim
    shapes = _table("token_embedding", table_rows(config, vocabulary_size), width)
    if config.embedding_dim is not None:
        shapes |= _dense("embedding_projection", width, config.hidden_dim)
    return shapes


def _stack(
    config: StackConfig, attention: Attention, side: str, *, pair: bool = False
) -> Shapes:
    """Shapes of a stack's weights, from its position embeddings to its final norm.

    Args:
        config: The model's config.
        attention: The stack's attention.
        side: `"encoder"` or `"decoder"`.
        pair: True in an encoder-decoder, whose decoder has cross-attention.
    """
    width, prefix = config.table_dim, f"{side}_" if pair else ""
    shapes: Shapes = {}
    match config.position:
        case LearnedPositionConfig(offset=offset):
            rows = offset + config.max_sequence_length
            shapes |= _table(f"{prefix}position_embedding", rows, width)
        case RelativeBiasPositionConfig(num_buckets=buckets):
            shapes |= _table(f"{prefix}relative_bias", buckets, attention.num_heads)
        case _:
            pass
    if config.has_embeddings_norm:
        shapes |= _norm(f"{prefix}embeddings_norm", config, width)
    block = _block(config, attention, crosses=pair and side == "decoder")
    shapes |= _under(f"{side}_layers", block)
    if config.norm.placement == "pre":
        shapes |= _norm(f"{prefix}final_norm", config)
    return shapes


def _block(config: StackConfig, attention: Attention, *, crosses: bool) -> Shapes:
    """Shapes of a block's weights: sub-layers, each with norm and residual scale."""
    sub_layers = {"self_attention": _attention(config, attention)}
    if crosses:
        sub_layers["cross_attention"] = _projections(config, attention)
    if config.has_feedforward:
        sub_layers["feedforward"] = _feedforward(config)
    shapes: Shapes = {}
    for name, inner in sub_layers.items():
        shapes |= _under(name, inner) | _norm(f"{name}_norm", config)
        if isinstance(config.residual, ReZeroResidualConfig):
            shapes[f"{name}_residual/scale"] = ()
    return shapes


def _attention(config: StackConfig, attention: Attention) -> Shapes:
    """A self-attention."""
    shapes = _projections(config, attention)
    match attention:
        case GlobalWindowAttentionConfig():
            # Global tokens have separate query, key and value projections.
            own = _inward(config, attention)
            return shapes | {f"global_{name}": shape for name, shape in own.items()}
        case LowRankAttentionConfig(rank=rank, share_key_value=share_key_value):
            summaries = ("key",) if share_key_value else ("key", "value")
            summary = (config.max_sequence_length, rank)
            return {f"{name}_summary": summary for name in summaries} | shapes
        case (
            FullAttentionConfig()
            | SlidingWindowAttentionConfig()
            | BlockSparseAttentionConfig()
            | KernelAttentionConfig()  # random features are no weights
        ):
            return shapes
        case _:
            assert_never(attention)


def _projections(config: StackConfig, attention: Attention) -> Shapes:
    """Shapes of the query, key, value and output projections."""
    inner = attention.num_heads * config.head_dim(attention)
    bias = attention.output_bias
    output = _dense("output", inner, config.hidden_dim, bias=bias)
    return _inward(config, attention) | output


def _inward(config: StackConfig, attention: Attention) -> Shapes:
    width, head_dim = config.hidden_dim, config.head_dim(attention)
    bias = attention.projection_bias
    shapes = _dense("query", width, attention.num_heads * head_dim, bias=bias)
    for name in ("key", "value"):
        outputs = attention.key_value_heads * head_dim
        shapes |= _dense(name, width, outputs, bias=bias)
    return shapes


def _feedforward(config: StackConfig) -> Shapes:
    feedforward, width = config.feedforward, config.hidden_dim
    if isinstance(feedforward, NoFeedForwardConfig):
        return {}
    wide, bias = feedforward.intermediate_dim, feedforward.use_bias
    shapes = _dense("intermediate", width, wide, bias=bias)
    match feedforward:
        case DenseFeedForwardConfig():
            pass
        case GatedFeedForwardConfig():
            shapes |= _dense("gate", width, wide, bias=bias)
        case _:
            assert_never(feedforward)
    return shapes | _dense("output", wide, width, bias=bias)


def _norm(name: str, config: StackConfig, width: int | None = None) -> Shapes:
    """Shapes of a norm's weights, of the hidden width if no other width is given."""
    vectors = (
        ("gamma", "beta") if isinstance(config.norm, LayerNormConfig) else ("gamma",)
    )
    return {f"{name}/{vector}": (width or config.hidden_dim,) for vector in vectors}


def _table(name: str, rows: int, width: int) -> Shapes:
    return {f"{name}/embeddings": (rows, width)}


def _dense(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Shapes:
    kernel = {f"{name}/kernel": (inputs, outputs)}
    return kernel | ({f"{name}/bias": (outputs,)} if bias else {})


def _under(name: str, shapes: Shapes) -> Shapes:
    return {f"{name}/{path}": shape for path, shape in shapes.items()}
