"""What each section of `model:` in a config becomes: one `build_*` per socket.

A new kind is a dataclass in `configs/model.py`, a layer, and a `case` here; the
type checker names every `match` that has forgotten it.
"""

from typing import assert_never

import keras

from configs.model import (
    AlibiPosition,
    DenseFeedForward,
    EncoderConfig,
    FullAttention,
    LayerNorm,
    LearnedPosition,
    PlainResidual,
    SinusoidalPosition,
)
from model.layers.attention import MultiHeadAttention
from model.layers.block import TransformerBlock
from model.layers.feedforward import FeedForward
from model.layers.norms import LayerNormalization
from model.layers.positions.learned import LearnedPositionEmbedding
from model.layers.positions.linear_bias import LinearBias
from model.layers.positions.sinusoidal import SinusoidalPositionEmbedding
from model.layers.residual import Residual
from model.seeds import derive_seed


def build_position(
    config: EncoderConfig, *, name: str, dtype: str | None, seed: int | None
) -> keras.layers.Layer | None:
    """Makes the layer that adds a token's place to its vector, if the kind has one."""
    match config.position:
        case LearnedPosition():
            return LearnedPositionEmbedding(
                config.max_sequence_length,
                initializer_range=config.initializer_range,
                seed=derive_seed(seed, name),
                name=name,
                dtype=dtype,
            )
        case SinusoidalPosition(max_wavelength=max_wavelength):
            return SinusoidalPositionEmbedding(
                config.max_sequence_length,
                max_wavelength=max_wavelength,
                name=name,
                dtype=dtype,
            )
        case AlibiPosition():
            return None
        case unknown:
            assert_never(unknown)


def build_score_bias(
    config: EncoderConfig, *, name: str, dtype: str | None
) -> keras.layers.Layer | None:
    """Makes the layer that adds places to attention scores, if the kind has one."""
    match config.position:
        case AlibiPosition():
            return LinearBias(config.attention.num_heads, name=name, dtype=dtype)
        case LearnedPosition() | SinusoidalPosition():
            return None
        case unknown:
            assert_never(unknown)


def build_attention(
    config: EncoderConfig, *, name: str, dtype: str | None, seed: int | None
) -> keras.layers.Layer:
    """Makes the layer by which the tokens look at each other."""
    match config.attention:
        case FullAttention(num_heads=num_heads, dropout=dropout):
            return MultiHeadAttention(
                config.hidden_dim,
                num_heads,
                dropout=dropout,
                initializer_range=config.initializer_range,
                score_bias=build_score_bias(config, name="score_bias", dtype="float32"),
                seed=derive_seed(seed, name),
                name=name,
                dtype=dtype,
            )
        case unknown:
            assert_never(unknown)


def build_norm(
    config: EncoderConfig, *, name: str, dtype: str | None
) -> keras.layers.Layer:
    """Makes a norm; where it stands is `norm.placement`'s business."""
    match config.norm:
        case LayerNorm(epsilon=epsilon):
            return LayerNormalization(epsilon, name=name, dtype=dtype)
        case unknown:
            assert_never(unknown)


def build_feedforward(
    config: EncoderConfig, *, name: str, dtype: str | None, seed: int | None
) -> keras.layers.Layer:
    """Makes the layer that works on each token alone."""
    match config.feedforward:
        case DenseFeedForward(intermediate_dim=intermediate_dim, activation=activation):
            return FeedForward(
                config.hidden_dim,
                intermediate_dim,
                activation=activation,
                initializer_range=config.initializer_range,
                seed=derive_seed(seed, name),
                name=name,
                dtype=dtype,
            )
        case unknown:
            assert_never(unknown)


def build_residual(
    config: EncoderConfig, *, name: str, dtype: str | None, seed: int | None
) -> keras.layers.Layer:
    """Makes the layer that joins a sub-layer's result with its input."""
    match config.residual:
        case PlainResidual():
            return Residual(
                config.dropout, seed=derive_seed(seed, name), name=name, dtype=dtype
            )
        case unknown:
            assert_never(unknown)


def build_block(
    config: EncoderConfig, *, name: str, dtype: str | None, seed: int | None
) -> TransformerBlock:
    """Fills the sockets of one block."""
    seed = derive_seed(seed, name)

    def residual(part: str) -> keras.layers.Layer:
        return build_residual(config, name=part, dtype=dtype, seed=seed)

    return TransformerBlock(
        self_attention=build_attention(
            config, name="self_attention", dtype=dtype, seed=seed
        ),
        self_attention_norm=build_norm(config, name="self_attention_norm", dtype=dtype),
        self_attention_residual=residual("self_attention_residual"),
        feedforward=build_feedforward(
            config, name="feedforward", dtype=dtype, seed=seed
        ),
        feedforward_norm=build_norm(config, name="feedforward_norm", dtype=dtype),
        feedforward_residual=residual("feedforward_residual"),
        norm_placement=config.norm.placement,
        name=name,
        dtype=dtype,
    )
