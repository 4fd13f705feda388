"""FLOPs and memory of each kind of attention, without its projections.

This module counts the operations of the layers in `model/layers/attention` for rows of
one document, including masked scores. Packed rows cost more with global tokens, block
sparse, low-rank and bidirectional kernel attention; see `docs/cost.md`.
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

# The constants of `sliding_window.py` and `chunked_linear_attention.py`, which cannot
# be imported without importing Keras.
BLOCKS_IN_WINDOW, SMALLEST_BLOCK = 8, 32
CHUNK = 128


@dataclass(frozen=True, kw_only=True)
class AttentionCost:
    """The cost of a self-attention for one sequence, without its projections.

    Attributes:
        scores: Number of pairs of a query and a key, per head.
        products: Multiply-adds over all heads, other than those for scores and for
            weighted sums of values.
        drawn_products: Multiply-adds of products with random projections, which are not
            trained.
        features: Number of features of queries and keys, over all heads.
        pairs: Number of products of query and key features, over all heads, other than
            scores.
        kept: Number of values stored for the backward pass other than probabilities,
            over all heads.
    """

    scores: int
    products: int = 0
    drawn_products: int = 0
    features: int = 0
    pairs: int = 0
    kept: int = 0

    def multiply_adds(self, attention: Attention, head_dim: int) -> int:
        """Multiply-adds of the matrix products that need gradients, over all heads."""
        return 2 * self.scores * attention.num_heads * head_dim + self.products


def attention_cost(
    attention: Attention, head_dim: int, length: int, *, causal: bool
) -> AttentionCost:
    """Computes the cost of an attention for one sequence.

    Args:
        attention: The config of the attention.
        head_dim: Width of a head.
        length: Number of tokens of the sequence.
        causal: True for a decoder.

    Example:
    >>> attention_cost(FullAttentionConfig(), 64, 128, causal=False).scores
    16384
    """
    match attention:
        case FullAttentionConfig():
            return AttentionCost(scores=length**2)
        case SlidingWindowAttentionConfig(window_size=window):
            return AttentionCost(scores=_window_scores(window, length, causal=causal))
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
    """Number of blocks that cover a block and the given tokens before and after it."""
    return 1 + sum(math.ceil(min(tokens, length - 1) / size) for tokens in seen)


def _global_window(
    attention: GlobalWindowAttentionConfig, length: int
) -> AttentionCost:
    """Cost of a sliding window with global tokens."""
    number, size = attention.num_global_tokens, _window_block(attention.window_size)
    half = attention.window_size // 2
    keys = _width((half, max(half, number - 1)), size, length) * size + 2 * number
    return AttentionCost(scores=_blocks(length, size) * size * keys)


def _block_sparse(attention: BlockSparseAttentionConfig, length: int) -> AttentionCost:
    """Cost of block sparse attention, including the queries of outermost blocks."""
    size = attention.block_size
    seen = _width((size, size), size, length) + 2 + attention.num_random_blocks
    return AttentionCost(scores=_blocks(length, size) * size**2 * (seen + 2))


def _low_rank(
    attention: LowRankAttentionConfig, head_dim: int, length: int
) -> AttentionCost:
    """Cost of projecting keys and values to `rank` vectors and attending to them."""
    width = attention.key_value_heads * head_dim
    return AttentionCost(
        scores=length * attention.rank,
        products=2 * length * attention.rank * width,
        kept=2 * attention.rank * width,
    )


def _kernel(
    attention: KernelAttentionConfig, head_dim: int, length: int, *, causal: bool
) -> AttentionCost:
    """Cost of kernel attention: sums of key-value products, multiplied by queries.

    A decoder computes the sums of key-value products in chunks; within a chunk, queries
    are multiplied with keys. A decoder computes its softmax features with two scalings:
    one for the query-key products within a chunk, one for the sums of key-value
    products.
    """
    heads, groups = attention.num_heads, attention.key_value_heads
    width = kernel_features(attention, head_dim)
    softmax = attention.feature_map == "softmax"
    projected = (heads + groups) * length * width
    features = projected * (2 if causal and softmax else 1)
    is_drawn = attention.feature_map != "elu"
    # A one is appended to each value, for the sum of the weights.
    size = min(CHUNK, length)
    pairs = heads * _blocks(length, size) * size**2 if causal else 0
    return AttentionCost(
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
