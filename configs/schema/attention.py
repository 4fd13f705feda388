"""`model.attention`: full, windowed, block-sparse, low-rank and kernel attention."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    """Options of every kind of attention."""

    num_heads: int = option(4, minimum=1)
    """Number of attention heads."""

    num_key_value_heads: int | None = option(None, minimum=1)
    """Number of key and value heads, each shared by a group of query heads (GQA); 1 is
    multi-query attention. Left out: num_heads.
    """

    head_dim: int | None = option(None, minimum=1)
    """Size of each attention head. Left out: hidden_dim / num_heads."""

    projection_bias: bool = True
    """Add a bias in the query, key and value projections."""

    output_bias: bool = True
    """Add a bias in the output projection."""

    dropout: float = option(0.1, minimum=0.0, maximum=0.99)
    """Dropout on the attention probabilities."""

    def __post_init__(self) -> None:
        if self.num_heads % self.key_value_heads:
            raise ConfigError(
                f"num_heads={self.num_heads} is not a multiple of "
                f"num_key_value_heads={self.key_value_heads}"
            )

    @property
    def key_value_heads(self) -> int:
        """`num_key_value_heads`, or its default `num_heads`.

        Example:
        >>> HeadsConfig(num_heads=8).key_value_heads
        8
        """
        return self.num_key_value_heads or self.num_heads


@dataclass(frozen=True, kw_only=True)
class FullAttentionConfig(HeadsConfig):
    """Softmax attention over the whole document; cost is quadratic in its length."""

    kind: Literal["full"] = "full"
    scale_scores: bool = True
    """Divide attention scores by sqrt(head_dim); T5 does not."""


@dataclass(frozen=True, kw_only=True)
class WindowAttentionConfig(HeadsConfig):
    """Options of attention to the nearest tokens."""

    window_size: int = option(512, minimum=2)
    """In an encoder each token attends to itself and to window_size / 2 tokens on each
    side; in a decoder to itself and to the window_size - 1 tokens before it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_size % 2:
            raise ConfigError(
                f"window_size={self.window_size} is odd; half of it lies on each side"
            )


@dataclass(frozen=True, kw_only=True)
class SlidingWindowAttentionConfig(WindowAttentionConfig):
    """Attention to nearby tokens only; linear cost (Beltagy et al., 2020).

    In an encoder, half of the window is on each side of the token; in a decoder, the
    window ends at the token.
    """

    kind: Literal["sliding_window"] = "sliding_window"


@dataclass(frozen=True, kw_only=True)
class GlobalWindowAttentionConfig(WindowAttentionConfig):
    """A sliding window plus global tokens, as in Longformer.

    The first tokens of each document are global: they attend to all tokens, all tokens
    attend to them, and they have separate projections.
    """

    kind: Literal["global_window"] = "global_window"
    num_global_tokens: int = option(1, minimum=1)
    """Number of global tokens at the beginning of each document."""

    global_tokens: Literal["first_segment"] | None = None
    """first_segment: only tokens of the first of two texts are global, such as the
    question of span_qa, with [CLS] and [SEP]; num_global_tokens is then the most of
    them, and further ones are not global. Left out: the first num_global_tokens tokens
    of each document.
    """


@dataclass(frozen=True, kw_only=True)
class BlockSparseAttentionConfig(HeadsConfig):
    """Attention to neighboring, first and last, and random blocks (BigBird)."""

    kind: Literal["block_sparse"] = "block_sparse"
    block_size: int = option(64, minimum=1)
    """Tokens in a block."""

    num_random_blocks: int = option(3, minimum=0)
    """Random key blocks that each query block attends to, drawn once per layer and
    head.
    """


@dataclass(frozen=True, kw_only=True)
class LowRankAttentionConfig(HeadsConfig):
    """Keys and values projected to a few vectors (Linformer; Wang et al., 2020).

    The projection has a weight per position, so the maximum length is fixed.
    """

    kind: Literal["low_rank"] = "low_rank"
    rank: int = option(256, minimum=1)
    """Number of vectors that keys and values are projected to."""

    share_key_value: bool = False
    """Use the same projection for keys and values."""

    max_documents: int = option(8, minimum=1)
    """Maximum number of documents in a packed row; a row with more gives NaN."""


@dataclass(frozen=True, kw_only=True)
class KernelAttentionConfig(HeadsConfig):
    """Linear attention with kernel feature maps (Performer, FAVOR+)."""

    kind: Literal["kernel"] = "kernel"
    feature_map: Literal["softmax", "relu", "elu"] = "softmax"
    """`softmax` approximates softmax attention with random features (Choromanski et
    al., 2021); `relu` and `elu` are different kernels, not approximations of softmax
    (elu: Katharopoulos et al., 2020).
    """

    num_features: int = option(256, minimum=1)
    """Number of random features for `softmax` and `relu`; more give a better
    approximation.
    """

    dropout: float = option(0.0, minimum=0.0, maximum=0.0)
    """Must be 0: kernel attention computes no attention probabilities."""


Attention = (
    FullAttentionConfig
    | SlidingWindowAttentionConfig
    | GlobalWindowAttentionConfig
    | BlockSparseAttentionConfig
    | LowRankAttentionConfig
    | KernelAttentionConfig
)
# Kinds that support causal masking.
CausalAttention = (
    FullAttentionConfig | SlidingWindowAttentionConfig | KernelAttentionConfig
)


def has_global_segment(attention: Attention) -> bool:
    """Checks if the tokens of the first of two texts are global.

    Example:
    >>> has_global_segment(GlobalWindowAttentionConfig(global_tokens="first_segment"))
    True
    """
    return (
        isinstance(attention, GlobalWindowAttentionConfig)
        and attention.global_tokens is not None
    )
