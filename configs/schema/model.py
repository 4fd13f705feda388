"""`model`: a Transformer block of five exchangeable parts, and the stack of blocks.

The parts of a block are configured in `configs/schema/attention.py` and
`configs/schema/block.py`. This module rejects combinations that are not supported, with
the reason.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.attention import (
    Attention,
    BlockSparseAttentionConfig,
    CausalAttention,
    FullAttentionConfig,
    GlobalWindowAttentionConfig,
    HeadsConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    has_global_segment,
)
from transbeam.configs.schema.block import (
    AlibiPositionConfig,
    DenseFeedForwardConfig,
    DirectedAlibiPositionConfig,
    FeedForward,
    Initializer,
    LayerNormConfig,
    LearnedPositionConfig,
    NoFeedForwardConfig,
    Norm,
    NormalInitializerConfig,
    PlainResidualConfig,
    Position,
    RelativeBiasPositionConfig,
    Residual,
    RopePositionConfig,
)
from transbeam.configs.schema.inheritance import ModelInheritanceConfig

_TIED = (
    "Use the token embedding matrix as the output projection too (tied weights); "
    "false: a separate output projection."
)


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Embeddings and a stack of identical Transformer blocks."""

    INHERITANCE: ClassVar[type] = ModelInheritanceConfig

    num_layers: int = option(4, minimum=1)
    """Number of Transformer blocks."""

    hidden_dim: int = option(256, minimum=1)
    """Size of the hidden states."""

    max_sequence_length: int = option(512, minimum=1)
    """Maximum input length in tokens; learned positions have one vector for each
    position.
    """

    vocabulary_multiple: int = option(1, minimum=1)
    """The token embedding is padded to a multiple of this many rows; the padding rows
    are never predicted. 64 or 128 is faster on most hardware.
    """

    embedding_dim: int | None = option(None, minimum=1)
    """Size of the embeddings, if smaller than hidden_dim (ALBERT): a dense layer
    projects them to hidden_dim, and tied output scores are computed from vectors
    projected back. Saves about rows x (hidden_dim - embedding_dim) weights. Left out:
    hidden_dim, without projections.
    """

    dropout: float = option(0.1, minimum=0.0, maximum=0.99)
    """Dropout after the embeddings and after each sub-layer."""

    embedding_scale: bool = False
    """Multiply token embeddings by sqrt(hidden_dim) (Vaswani et al., 2017), or by
    sqrt(embedding_dim) where that is set.
    """

    embeddings_norm: bool | None = None
    """Normalize the sum of the embeddings (BERT). Left out: only with
    norm.placement=post.
    """

    initializer: Initializer = option(NormalInitializerConfig)
    """Initialization of the weights."""

    position: Position = option(LearnedPositionConfig)
    """Position encoding."""

    norm: Norm = option(LayerNormConfig)
    """Normalization and its placement."""

    feedforward: FeedForward = option(DenseFeedForwardConfig)
    """Feed-forward sub-layer of a block, or none."""

    residual: Residual = option(PlainResidualConfig)
    """Residual connection around each sub-layer."""

    @property
    def has_embeddings_norm(self) -> bool:
        """`embeddings_norm`, or its default."""
        if self.embeddings_norm is None:
            return self.norm.placement == "post"
        return self.embeddings_norm

    @property
    def has_feedforward(self) -> bool:
        """True if blocks have a feed-forward sub-layer."""
        return not isinstance(self.feedforward, NoFeedForwardConfig)

    @property
    def head_activation(self) -> str:
        """Activation of a masked language model's head: the feed-forward's, or gelu."""
        if isinstance(self.feedforward, NoFeedForwardConfig):
            return "gelu"
        return self.feedforward.activation

    @property
    def table_dim(self) -> int:
        """`embedding_dim`, or its default `hidden_dim`."""
        return self.embedding_dim or self.hidden_dim

    def _check_embedding(self) -> None:
        """Checks that the embedding is not wider than the hidden states."""
        if self.embedding_dim is not None and self.embedding_dim > self.hidden_dim:
            raise ConfigError(
                f"embedding_dim={self.embedding_dim} is more than "
                f"hidden_dim={self.hidden_dim}: the dense layer behind the table would "
                "throw away what the table holds. Make it smaller, or remove the key"
            )

    def head_dim(self, attention: HeadsConfig) -> int:
        """Width of one head.

        Example:
        >>> EncoderConfig(hidden_dim=64).head_dim(FullAttentionConfig(num_heads=4))
        16
        """
        return attention.head_dim or self.hidden_dim // attention.num_heads

    def _check_attention(self, attention: Attention, key: str, *, causal: bool) -> None:
        """Checks that an attention fits the other settings of its stack."""
        if attention.head_dim is None and self.hidden_dim % attention.num_heads:
            raise ConfigError(
                f"hidden_dim={self.hidden_dim} is not a multiple of "
                f"{key}.num_heads={attention.num_heads}. Make them fit, or give "
                f"{key}.head_dim"
            )
        if causal and not isinstance(attention, CausalAttention):
            raise ConfigError(
                f"{key}.kind={attention.kind} cannot keep a decoder's tokens from "
                "seeing what comes after them. Give the decoder an attention of kind "
                "full, sliding_window or kernel"
            )
        self._check_position(attention, key, causal=causal)
        self._check_length(attention, key)

    def _check_position(self, attention: Attention, key: str, *, causal: bool) -> None:
        """Checks that the attention supports the kind of position encoding."""
        biases = (
            RelativeBiasPositionConfig
            | AlibiPositionConfig
            | DirectedAlibiPositionConfig
        )
        scoreless = LowRankAttentionConfig | KernelAttentionConfig
        if isinstance(self.position, biases) and isinstance(attention, scoreless):
            raise ConfigError(
                f"position.kind={self.position.kind} is added to the scores of "
                f"pairs of tokens, and {key}.kind={attention.kind} makes none"
            )
        if isinstance(self.position, RopePositionConfig):
            self._check_rotation(attention, key)
        if not isinstance(self.position, DirectedAlibiPositionConfig):
            return
        if causal:
            raise ConfigError(
                "position.kind=directed_alibi has heads that look ahead, which a "
                "decoder may not. Write `kind: alibi`"
            )
        if attention.num_heads % 2:
            raise ConfigError(
                f"{key}.num_heads={attention.num_heads} is odd; position.kind="
                "directed_alibi needs pairs of heads, one for each direction"
            )

    def _check_rotation(self, attention: Attention, key: str) -> None:
        if isinstance(attention, LowRankAttentionConfig):
            raise ConfigError(
                f"position.kind=rope turns each key by its own place, and {key}."
                "kind=low_rank sums up keys of many places"
            )
        if self.head_dim(attention) % 2:
            raise ConfigError(
                f"position.kind=rope turns pairs of numbers, and a head's width of "
                f"{self.head_dim(attention)} is odd: change {key}.head_dim, or "
                "hidden_dim / num_heads"
            )

    def _check_length(self, attention: Attention, key: str) -> None:
        """Checks that no size of the attention exceeds the maximum length."""
        longest = f"max_sequence_length={self.max_sequence_length}"
        match attention:
            case GlobalWindowAttentionConfig(num_global_tokens=number) if (
                number > self.max_sequence_length
            ):
                raise ConfigError(
                    f"{key}.num_global_tokens={number} is more than {longest}"
                )
            case LowRankAttentionConfig(rank=rank) if rank > self.max_sequence_length:
                raise ConfigError(
                    f"{key}.rank={rank} is more than {longest}: nothing would be "
                    "summed up"
                )
            case BlockSparseAttentionConfig(block_size=size, num_random_blocks=number):
                blocks = -(-self.max_sequence_length // size)
                if number >= blocks:
                    raise ConfigError(
                        f"{key}.num_random_blocks={number} cannot be chosen among "
                        f"{blocks}: {longest} has no more blocks of "
                        f"{key}.block_size={size}"
                    )
            case _:
                pass


@dataclass(frozen=True, kw_only=True)
class PatchesConfig:
    """Images as sequences of square patches (ViT)."""

    image_size: int = option(224, minimum=1)
    """Height and width in pixels."""

    patch_size: int = option(16, minimum=1)
    """Height and width of a patch in pixels."""

    num_channels: int = option(3, minimum=1)
    """Color channels of an image."""

    def __post_init__(self) -> None:
        if self.image_size % self.patch_size:
            raise ConfigError(
                f"image_size={self.image_size} is not a multiple of "
                f"patch_size={self.patch_size}"
            )

    @property
    def sequence_length(self) -> int:
        """Number of patches of an image, plus the class token.

        Example:
        >>> PatchesConfig(image_size=224, patch_size=16).sequence_length
        197
        """
        return (self.image_size // self.patch_size) ** 2 + 1


@dataclass(frozen=True, kw_only=True)
class PoolerConfig:
    """Pooling of the hidden states into one vector per text."""

    kind: Literal["first", "mean", "max", "attention", "last", "end_token"] = "first"
    """`first`: the vector of the first token, as in BERT; `mean`, `max`: pooled over
    the tokens that are not padding; `attention`: a weighted mean with learned weights.
    In a decoder, where later tokens see more, in place of `first`: `last`, the vector
    of the last token that is not padding, as in Hugging Face; `end_token`, that of an
    end token that is added to each text, as the extract token of GPT.
    """

    projection: bool = False
    """Apply a dense layer with an activation to the pooled vector, as in BERT."""

    activation: Literal["tanh", "relu"] = "tanh"
    """Activation of the projection: `tanh` as in BERT, `relu` as in DistilBERT's
    classifier.
    """

    def __post_init__(self) -> None:
        if self.activation != "tanh" and not self.projection:
            raise ConfigError(
                f"activation={self.activation} is of the projection, and "
                "projection=False. Write `projection: true`, or remove the key"
            )


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(StackConfig):
    """A bidirectional encoder, as in BERT."""

    kind: Literal["encoder"] = "encoder"
    attention: Attention = option(FullAttentionConfig)
    """Self-attention."""

    num_segments: int = option(0, minimum=0)
    """Number of segment (token type) embeddings: 2 for BERT's sentences A and B; 0 for
    none; 1 adds one vector to all tokens (RoBERTa).
    """

    pooler: PoolerConfig | None = None
    """Pooling of the hidden states into one vector per text; null for none. A
    classifier without a pooler uses the first token's vector, and `contrastive_pairs`
    the mean of all tokens.
    """

    patches: PatchesConfig | None = None
    """Input of image patches instead of tokens; null for text."""

    @property
    def text_pooler(self) -> PoolerConfig:
        """`pooler`, or its default `first`."""
        return self.pooler or PoolerConfig()

    @property
    def embedding_pooler(self) -> PoolerConfig:
        """`pooler`, or its default for text embeddings, `mean`."""
        return self.pooler or PoolerConfig(kind="mean")

    @property
    def reads_segments(self) -> bool:
        """True if the segment of a token has an effect, in records of two segments."""
        return self.num_segments > 1 or has_global_segment(self.attention)

    def __post_init__(self) -> None:
        self._check_attention(self.attention, "attention", causal=False)
        self._check_embedding()
        if self.text_pooler.kind in ("last", "end_token"):
            raise ConfigError(
                f"pooler.kind={self.text_pooler.kind} is of decoders, whose last token "
                "alone sees the whole text. Write first, mean, max or attention"
            )
        if self.patches is None:
            return
        if self.num_segments:
            raise ConfigError(
                f"num_segments={self.num_segments}: images have no segments"
            )
        if self.vocabulary_multiple != 1:
            raise ConfigError(
                f"vocabulary_multiple={self.vocabulary_multiple} is of the table of "
                "tokens, and with patches there is none. Remove the key"
            )
        if self.embedding_dim is not None:
            raise ConfigError(
                f"embedding_dim={self.embedding_dim} is of the table of tokens, and "
                "with patches there is none. Remove the key"
            )
        if self.embedding_scale:
            raise ConfigError(
                "embedding_scale=True is of tokens' vectors, and with patches there "
                "are none. Remove the key"
            )
        if self.patches.sequence_length > self.max_sequence_length:
            raise ConfigError(
                f"max_sequence_length={self.max_sequence_length} is less than an "
                f"image's {self.patches.sequence_length} squares with its class token"
            )


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(StackConfig):
    """A causal decoder, as in GPT and LLaMA: each token sees those before it."""

    kind: Literal["decoder"] = "decoder"
    norm: Norm = option(lambda: LayerNormConfig(placement="pre", epsilon=1e-5))
    """Normalization and its placement."""

    attention: CausalAttention = option(FullAttentionConfig)
    """Causal self-attention. The encoder's other kinds of attention do not support
    causal masking.
    """

    tie_embeddings: bool = option(True, doc=_TIED)
    pooler: PoolerConfig | None = None
    """Pooling of the hidden states into one vector per text, for objectives with one
    prediction per text and for `contrastive_pairs`. Left out: the vector of the last
    token.
    """

    @property
    def text_pooler(self) -> PoolerConfig:
        """`pooler`, or its default `last`."""
        return self.pooler or PoolerConfig(kind="last")

    @property
    def embedding_pooler(self) -> PoolerConfig:
        """`text_pooler`: the last token has seen the whole text."""
        return self.text_pooler

    def __post_init__(self) -> None:
        self._check_attention(self.attention, "attention", causal=True)
        self._check_embedding()
        if self.text_pooler.kind == "first":
            raise ConfigError(
                "pooler.kind=first: a decoder's first token sees no other token of its "
                "text. Write last, end_token, mean, max or attention"
            )


@dataclass(frozen=True, kw_only=True)
class Seq2SeqModelConfig(StackConfig):
    """An encoder and a decoder with cross-attention, as in T5."""

    kind: Literal["seq2seq"] = "seq2seq"
    num_decoder_layers: int | None = option(None, minimum=1)
    """Number of blocks in the decoder. Left out: num_layers."""

    attention: Attention = option(FullAttentionConfig)
    """Self-attention of the encoder."""

    decoder_attention: CausalAttention | None = None
    """Causal self-attention of the decoder. Left out: the same as `attention`. The
    encoder's other kinds of attention do not support causal masking.
    """

    tie_embeddings: bool = option(True, doc=_TIED)
    scale_logits: bool = False
    """Divide the decoder's output by sqrt(hidden_dim), or by sqrt(embedding_dim) where
    embeddings are tied, before it is multiplied with the output projection, as the
    first T5 does.
    """

    def __post_init__(self) -> None:
        self._check_attention(self.attention, "attention", causal=False)
        key = "attention" if self.decoder_attention is None else "decoder_attention"
        attention = self.decoder_attention or self.attention
        self._check_attention(attention, key, causal=True)
        self._check_embedding()

    @property
    def decoder_layers(self) -> int:
        """`num_decoder_layers`, or its default `num_layers`."""
        return self.num_decoder_layers or self.num_layers


Model = EncoderConfig | DecoderConfig | Seq2SeqModelConfig
