"""Builds the parts of a block from a config: one `build_*` function for each part.

A new kind needs a dataclass in `configs/schema/block.py` or `attention.py`, a layer,
and a `case` here; the type checker reports every `match` without that case.
"""

from dataclasses import asdict
from typing import Any, assert_never

import keras

from transbeam.configs.schema import attention as kinds
from transbeam.configs.schema import block
from transbeam.model.base.initializers import derive_seed
from transbeam.model.layers.attention.block_sparse import BlockSparseAttention
from transbeam.model.layers.attention.cross import CrossAttention
from transbeam.model.layers.attention.full import MultiHeadAttention
from transbeam.model.layers.attention.global_window import GlobalWindowAttention
from transbeam.model.layers.attention.kernel_attention import KernelAttention
from transbeam.model.layers.attention.low_rank import LowRankAttention
from transbeam.model.layers.attention.sliding_window import SlidingWindowAttention
from transbeam.model.layers.feedforward import FeedForward, GatedFeedForward
from transbeam.model.layers.norms import LayerNormalization, RMSNormalization
from transbeam.model.layers.positions.alibi import LinearBias
from transbeam.model.layers.positions.learned import LearnedPositionEmbedding
from transbeam.model.layers.positions.relative_bias import (
    RelativeBias,
    RelativeBiasTable,
)
from transbeam.model.layers.positions.rotary import RotaryEmbedding
from transbeam.model.layers.positions.sinusoidal import SinusoidalPositionEmbedding
from transbeam.model.layers.residual import (
    DropPathResidual,
    Residual,
    ReZeroResidual,
    ScaledResidual,
)
from transbeam.model.stack.stack_spec import StackSpec


def build_position(plan: StackSpec, name: str) -> keras.layers.Layer | None:
    """Builds the absolute position embedding; None for other kinds of positions."""
    config = plan.config
    match config.position:
        case block.LearnedPositionConfig(offset=offset):
            return LearnedPositionEmbedding(
                config.max_sequence_length,
                offset=offset,
                embeddings_initializer=plan.embeddings_initializer,
                seed=derive_seed(plan.seed, name),
                name=name,
                dtype=plan.dtype,
            )
        case block.SinusoidalPositionConfig(max_wavelength=max_wavelength):
            return SinusoidalPositionEmbedding(
                config.max_sequence_length,
                max_wavelength=max_wavelength,
                name=name,
                dtype=plan.dtype,
            )
        case _:
            return None


def build_bias_table(plan: StackSpec, name: str) -> keras.layers.Layer | None:
    """Builds a table of relative position biases; None for other kinds of positions."""
    match plan.config.position:
        case block.RelativeBiasPositionConfig(num_buckets=num_buckets):
            return RelativeBiasTable(
                num_buckets,
                plan.attention.num_heads,
                embeddings_initializer=plan.embeddings_initializer,
                seed=derive_seed(plan.seed, name),
                name=name,
                dtype=plan.dtype,
            )
        case _:
            return None


def build_score_bias(plan: StackSpec, name: str) -> keras.layers.Layer | None:
    """Builds the position bias of attention scores; None for other position kinds."""
    heads = plan.attention.num_heads
    match plan.config.position:
        case block.RelativeBiasPositionConfig(
            num_buckets=buckets, max_distance=distance
        ):
            return RelativeBias(
                buckets,
                distance,
                bidirectional=not plan.causal,
                name=name,
                dtype="float32",
            )
        case block.AlibiPositionConfig():
            return LinearBias(heads, name=name, dtype="float32")
        case block.DirectedAlibiPositionConfig():
            return LinearBias(heads, directed=True, name=name, dtype="float32")
        case _:
            return None


def build_rotary(plan: StackSpec, name: str) -> keras.layers.Layer | None:
    """Builds the rotary position embedding; None for other kinds of positions."""
    match plan.config.position:
        case block.RopePositionConfig(base=base, stretch=stretch):
            options = asdict(stretch)
            return RotaryEmbedding(
                base,
                stretch=options.pop("kind"),
                **options,
                name=name,
                dtype=plan.dtype,
            )
        case _:
            return None


def build_norm(plan: StackSpec, name: str) -> keras.layers.Layer:
    """Builds a norm; `norm.placement` does not affect it."""
    match plan.config.norm:
        case block.LayerNormConfig(epsilon=epsilon):
            return LayerNormalization(epsilon, name=name, dtype=plan.dtype)
        case block.RmsNormConfig(epsilon=epsilon):
            return RMSNormalization(epsilon, name=name, dtype=plan.dtype)
        case unknown:
            assert_never(unknown)


def build_feedforward(plan: StackSpec, name: str) -> keras.layers.Layer | None:
    """Builds the feed-forward layer; None for attention-only blocks."""
    config = plan.config.feedforward
    match config:
        case block.DenseFeedForwardConfig():
            layer = FeedForward
        case block.GatedFeedForwardConfig():
            layer = GatedFeedForward
        case block.NoFeedForwardConfig():
            return None
        case unknown:
            assert_never(unknown)
    return layer(
        plan.config.hidden_dim,
        config.intermediate_dim,
        activation=config.activation,
        use_bias=config.use_bias,
        dropout=config.dropout,
        kernel_initializer=plan.kernel_initializer,
        output_initializer=plan.output_initializer,
        seed=derive_seed(plan.seed, name),
        name=name,
        dtype=plan.dtype,
    )


def build_residual(plan: StackSpec, name: str, index: int) -> keras.layers.Layer:
    """Builds the residual connection of a sub-layer.

    Args:
        plan: See `StackSpec`.
        name: The layer's name.
        index: The index of the block with this sub-layer.
    """
    common = {
        "dropout": plan.config.dropout,
        "seed": derive_seed(plan.seed, name),
        "name": name,
        "dtype": plan.dtype,
    }
    match plan.config.residual:
        case block.PlainResidualConfig():
            return Residual(**common)
        case block.ScaledResidualConfig():
            return ScaledResidual(plan.num_updates, **common)
        case block.ReZeroResidualConfig():
            return ReZeroResidual(**common)
        case block.DropPathResidualConfig(rate=rate):
            share = index / (plan.num_layers - 1) if plan.num_layers > 1 else 1.0
            return DropPathResidual(rate * share, **common)
        case unknown:
            assert_never(unknown)


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
