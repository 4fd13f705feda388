"""`model.attention`: full, windowed, block-sparse, low-rank and kernel attention."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    """Options of every kind of attention."""

    num_heads: int = option("Parallel attention heads.", default=4, minimum=1)
    num_key_value_heads: int | None = option(
        "Heads of keys and values, each shared by a group of query heads (GQA); 1 is "
        "multi-query attention. Left out: as num_heads.",
        default=None,
        minimum=1,
    )
    head_dim: int | None = option(
        "Width of a head. Left out: hidden_dim / num_heads.", default=None, minimum=1
    )
    projection_bias: bool = option(
        "Whether query, key and value projections add a bias.", default=True
    )
    output_bias: bool = option(
        "Whether the output projection adds a bias.", default=True
    )
    dropout: float = option(
        "Dropout on the attention probabilities.",
        default=0.1,
        minimum=0.0,
        maximum=0.99,
    )

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
    """Every token attends to every other of its document; cost grows with T²."""

    kind: Literal["full"] = "full"
    scale_scores: bool = option(
        "Divide scores by sqrt(head_dim); T5 does not.", default=True
    )


@dataclass(frozen=True, kw_only=True)
class WindowAttentionConfig(HeadsConfig):
    """Options of attention to the nearest tokens."""

    window_size: int = option(
        "An encoder's token sees window_size / 2 tokens on each side and itself; a "
        "decoder's itself and the window_size - 1 before it.",
        default=512,
        minimum=2,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_size % 2:
            raise ConfigError(
                f"window_size={self.window_size} is odd; half of it lies on each side"
            )


@dataclass(frozen=True, kw_only=True)
class SlidingWindowAttentionConfig(WindowAttentionConfig):
    """Each token attends to the nearest only; cost grows with T (Beltagy et al., 2020).

    In an encoder half of the window is on each side; in a decoder it ends at the token.
    """

    kind: Literal["sliding_window"] = "sliding_window"


@dataclass(frozen=True, kw_only=True)
class GlobalWindowAttentionConfig(WindowAttentionConfig):
    """A sliding window, and a few tokens that see and are seen by all (Longformer).

    The global tokens are the first of each document, and have separate projections.
    """

    kind: Literal["global_window"] = "global_window"
    num_global_tokens: int = option(
        "How many tokens at the beginning of a document are global.",
        default=1,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class BlockSparseAttentionConfig(HeadsConfig):
    """Blocks see their neighbours, the outermost, and some at random (BigBird)."""

    kind: Literal["block_sparse"] = "block_sparse"
    block_size: int = option("Tokens in a block.", default=64, minimum=1)
    num_random_blocks: int = option(
        "Blocks chosen at random for each block, once for each layer and head.",
        default=3,
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class LowRankAttentionConfig(HeadsConfig):
    """Keys and values are summed up in a few vectors (Linformer; Wang et al., 2020).

    The projection has a weight per position, so the maximum length is fixed.
    """

    kind: Literal["low_rank"] = "low_rank"
    rank: int = option(
        "To how many vectors they are summed up.", default=256, minimum=1
    )
    share_key_value: bool = option(
        "Sum up keys and values by the same weights.", default=False
    )
    max_documents: int = option(
        "Most documents in a packed row; a row with more gives NaN.",
        default=8,
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class KernelAttentionConfig(HeadsConfig):
    """The softmax by a product of features: cost grows with T (Performer, FAVOR+)."""

    kind: Literal["kernel"] = "kernel"
    feature_map: Literal["softmax", "relu", "elu"] = option(
        "`softmax` approximates it by random features (Choromanski et al., 2021); "
        "`relu` and `elu` are other similarities, without randomness (elu: "
        "Katharopoulos et al., 2020).",
        default="softmax",
    )
    num_features: int = option(
        "Random features of `softmax` and `relu`; more approximate better.",
        default=256,
        minimum=1,
    )
    dropout: float = option(
        "There are no probabilities to drop: only 0.",
        default=0.0,
        minimum=0.0,
        maximum=0.0,
    )


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
