"""Builds the attention layer of `model.attention`: one case for each kind."""

from typing import Any, assert_never

import keras

from transbeam.configs.schema import attention as kinds
from transbeam.model.base.seeds import derive_seed
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.kernel_attention import KernelAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.stack.layer_factory import build_rotary, build_score_bias
from transbeam.model.stack.stack_spec import StackSpec


def build_attention(plan: StackSpec, name: str) -> keras.layers.Layer:
    """Builds the self-attention layer."""
    config = plan.attention
    common = _common(plan, name) | {
        "causal": plan.causal,
        "rotary": build_rotary(plan, "rotary"),
        "score_bias": build_score_bias(plan, "score_bias"),
    }
    match config:
        case kinds.FullAttentionConfig(scale_scores=scale_scores):
            return MultiHeadAttention(scale_scores=scale_scores, **common)
        case kinds.SlidingWindowAttentionConfig(window_size=size):
            return SlidingWindowAttention(window_size=size, **common)
        case kinds.GlobalWindowAttentionConfig(
            window_size=size, num_global_tokens=number
        ):
            return GlobalWindowAttention(
                window_size=size, num_global_tokens=number, **common
            )
        case kinds.BlockSparseAttentionConfig(
            block_size=size, num_random_blocks=number
        ):
            return BlockSparseAttention(
                block_size=size, num_random_blocks=number, **common
            )
        case kinds.LowRankAttentionConfig():
            return LowRankAttention(
                max_sequence_length=plan.config.max_sequence_length,
                rank=config.rank,
                share_key_value=config.share_key_value,
                max_documents=config.max_documents,
                **common,
            )
        case kinds.KernelAttentionConfig(feature_map=feature_map, num_features=number):
            return KernelAttention(
                feature_map=feature_map, num_features=number, **common
            )
        case unknown:
            assert_never(unknown)


def build_cross_attention(plan: StackSpec, name: str) -> keras.layers.Layer:
    """Builds the cross-attention layer, which is always full attention."""
    scale_scores = getattr(plan.attention, "scale_scores", True)
    return CrossAttention(scale_scores=scale_scores, **_common(plan, name))


def _common(plan: StackSpec, name: str) -> dict[str, Any]:
    config = plan.attention
    return {
        "hidden_dim": plan.config.hidden_dim,
        "num_heads": config.num_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "projection_bias": config.projection_bias,
        "output_bias": config.output_bias,
        "dropout": config.dropout,
        "kernel_initializer": plan.kernel_initializer,
        "output_initializer": plan.output_initializer,
        "seed": derive_seed(plan.seed, name),
        "name": name,
        "dtype": plan.dtype,
    }
