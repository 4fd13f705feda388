"""FLOPs and memory of each kind of attention: the part that grows with the length.

Counted is what the layers in `model/layers/attention` compute for rows of one document,
the scores that a mask throws away among them. Rows packed with several cost more with
global tokens, block sparse, low rank and an encoder's kernel attention; `docs/cost.md`
says how much.
"""

import math
from dataclasses import dataclass
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

# As in `sliding_window.py` and `chunked_linear_attention.py` there, which to import
# would import Keras.
BLOCKS_IN_WINDOW, SMALLEST_BLOCK = 8, 32
CHUNK = 128


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The cost of a self-attention for one sequence, without its projections.

    Attributes:
        scores: Pairs of a query and a key, for each head.
        products: Multiply-adds of all heads beside those of scores and values.
        drawn_products: Those with weights that are drawn and not trained.
        features: Numbers of all heads that stand for queries and keys.
        pairs: Pairs of all heads that are products of features and not scores.
        kept: Numbers of all heads kept for the backward pass beside probabilities.
    """

    scores: int
    products: int = 0
    drawn_products: int = 0
    features: int = 0
    pairs: int = 0
    kept: int = 0

    def multiply_adds(self, attention: Attention, head_dim: int) -> int:
        """Of all trained products; a score and its share of a mean take K each."""
        return 2 * self.scores * attention.num_heads * head_dim + self.products


def reach(attention: Attention, head_dim: int, length: int, *, causal: bool) -> Reach:
    """Computes the cost of an attention for one sequence.

    Args:
        attention: The config of the attention.
        head_dim: Width of a head.
        length: Tokens of the sequence.
        causal: Whether it is a decoder's.

    Example:
    >>> reach(FullAttentionConfig(), 64, 128, causal=False).scores
    16384
    """
    match attention:
        case FullAttentionConfig():
            return Reach(scores=length**2)
        case SlidingWindowAttentionConfig(window_size=window):
            return Reach(scores=_window_scores(window, length, causal=causal))
        case GlobalWindowAttentionConfig():
            return _global_window(attention, length)
        case BlockSparseAttentionConfig():
            return _block_sparse(attention, length)
        case LowRankAttentionConfig():
            return _low_rank(attention, head_dim, length)
        case KernelAttentionConfig():
            return _kernel(attention, head_dim, length, causal=causal)
        case _:
            assert_never(attention)


def _window_scores(window: int, length: int, *, causal: bool) -> int:
    size = _window_block(window)
    seen = (window - 1, 0) if causal else (window // 2, window // 2)
    return _blocks(length, size) * size**2 * _width(seen, size, length)


def _window_block(window: int) -> int:
    return max(window // BLOCKS_IN_WINDOW, SMALLEST_BLOCK)


def _blocks(length: int, size: int) -> int:
    return math.ceil(length / size)


def _width(seen: tuple[int, int], size: int, length: int) -> int:
    """With how many blocks one is multiplied, to see so far before and after."""
    return 1 + sum(math.ceil(min(tokens, length - 1) / size) for tokens in seen)


def _global_window(attention: GlobalWindowAttentionConfig, length: int) -> Reach:
    """A window; and global tokens, which are seen by all and see all."""
    number, size = attention.num_global_tokens, _window_block(attention.window_size)
    half = attention.window_size // 2
    keys = _width((half, max(half, number - 1)), size, length) * size + 2 * number
    return Reach(scores=_blocks(length, size) * size * keys)


def _block_sparse(attention: BlockSparseAttentionConfig, length: int) -> Reach:
    """Neighbours, the two outermost and the drawn; and the outermost, which see all."""
    size = attention.block_size
    seen = _width((size, size), size, length) + 2 + attention.num_random_blocks
    return Reach(scores=_blocks(length, size) * size**2 * (seen + 2))


def _low_rank(attention: LowRankAttentionConfig, head_dim: int, length: int) -> Reach:
    """Keys and values of all places are summed up in `rank` vectors."""
    width = attention.key_value_heads * head_dim
    return Reach(
        scores=length * attention.rank,
        products=2 * length * attention.rank * width,
        kept=2 * attention.rank * width,
    )


def _kernel(
    attention: KernelAttentionConfig, head_dim: int, length: int, *, causal: bool
) -> Reach:
    """Features of keys times values are summed up, and read by features of queries.

    A decoder does so in chunks, within which queries and keys are multiplied. Softmax
    features have there two sizes each, one for pairs and one for sums.
    """
    heads, groups = attention.num_heads, attention.key_value_heads
    width = kernel_features(attention, head_dim)
    softmax = attention.feature_map == "softmax"
    projected = (heads + groups) * length * width
    features = projected * (2 if causal and softmax else 1)
    is_drawn = attention.feature_map != "elu"
    # With each value goes a one, whose sum is that of the weights.
    size = min(CHUNK, length)
    pairs = heads * _blocks(length, size) * size**2 if causal else 0
    return Reach(
        scores=0,
        products=projected * (head_dim + 1) + pairs * (width + head_dim + 1),
        drawn_products=projected * head_dim if is_drawn else 0,
        features=features,
        pairs=pairs if softmax else 0,
        kept=features,
    )


def kernel_features(attention: KernelAttentionConfig, head_dim: int) -> int:
    """Counts the features that represent a query or a key of one head."""
    return head_dim if attention.feature_map == "elu" else attention.num_features
