"""Attention between tokens, for all kinds of attention that have such weights."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from transbeam.model.inspect.head_observation import observe_heads
from transbeam.model.inspect.head_weights import HeadWeights, RowWeights
from transbeam.model.layers.attention.attended_keys import AttendedKeys
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.low_rank import LowRankAttention


def read_token_attention(
    model: keras.Model, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Computes the weights between all pairs of tokens in each layer of a model.

    Weights in blocks, of windows and of global tokens, are put at their pairs of
    tokens; pairs that a kind of attention leaves out have the weight 0. So there are `T
    x T` weights for each head, which the layer itself avoids: for a picture of a text,
    not for statistics of many.

    Args:
        model: A model of `transbeam.model`, for rows of one text each.
        inputs: Its inputs.

    Returns:
        float32 `(B, H, T, S)` by the path of the layer, such as
        `encoder_layer_0/self_attention`; zeros for padding. Layers are left out whose
        weights are not of tokens: low-rank and kernel attention.

    Raises:
        ConfigError: See `observe_heads`.

    Example:
    >>> from transbeam.configs.schema.attention import SlidingWindowAttentionConfig
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> window = SlidingWindowAttentionConfig(num_heads=1, window_size=2)
    >>> config = EncoderConfig(num_layers=1, hidden_dim=8, attention=window)
    >>> ones = ops.ones((1, 4), dtype="int32")
    >>> found = read_token_attention(
    ...     build_encoder(config, 10), {"token_ids": ones, "padding_mask": ones}
    ... )
    >>> ops.convert_to_numpy(found["encoder_layer_0/self_attention"][0, 0] > 0) * 1
    array([[1, 1, 0, 0],
           [1, 1, 1, 0],
           [0, 1, 1, 1],
           [0, 0, 1, 1]])
    """
    found = read_visible_attention(model, inputs)
    return {path: weights for path, (weights, _) in found.items()}


def read_visible_attention(
    model: keras.Model, inputs: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Computes the weights between tokens, and the pairs that a kind of attention has.

    Args:
        model: See `read_token_attention`.
        inputs: Its inputs.

    Returns:
        By the path of the layer the weights, see `read_token_attention`, and bool `(B,
        A, T, S)`, true where a query may attend to a key; `A` is the number of heads,
        or 1 if all see the same keys.

    Raises:
        ConfigError: See `observe_heads`.

    Example:
    >>> from transbeam.configs.schema.model import DecoderConfig
    >>> from transbeam.model.decoder import build_decoder
    >>> ones = ops.ones((1, 3), dtype="int32")
    >>> decoder = build_decoder(DecoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> found = read_visible_attention(
    ...     decoder, {"token_ids": ones, "padding_mask": ones}
    ... )
    >>> weights, visible = found["decoder_layer_0/self_attention"]
    >>> ops.convert_to_numpy(visible)[0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    found: dict[str, tuple[Any, Any]] = {}

    def unfold(layer: Attention, keys: AttendedKeys, weights: HeadWeights) -> None:
        if isinstance(layer, LowRankAttention):
            return
        pairs, visible = weights.values, weights.visible
        if isinstance(weights, RowWeights):
            shape = ops.shape(pairs)
            visible = visible + ops.zeros((shape[0], 1, *shape[2:]), visible.dtype)
        else:
            batch = ops.shape(pairs)[1]
            one_hot = ops.eye(_count_tokens(inputs, layer.path), dtype="float32")
            one_hot = weights.at_keys(ops.repeat(one_hot[None], batch, axis=0))
            pairs = weights.sum_by_query(ops.matmul(pairs, one_hot))
            visible = visible + ops.zeros_like(weights.values[:, :, :1])
            visible = weights.sum_by_query(ops.matmul(visible, one_hot))
        # Global tokens, or outermost blocks, come after all other queries.
        before = found.get(layer.path, (0.0, False))
        visible = ops.logical_or(before[1], visible > 0)
        found[layer.path] = before[0] + pairs, visible

    with observe_heads(model, unfold):
        model(inputs, training=False)
    return found


def _count_tokens(inputs: Mapping[str, Any], path: str) -> int:
    """Returns the number of tokens of the row that a layer's self-attention reads."""
    side = "" if "token_ids" in inputs else f"{path.partition('_')[0]}_"
    return ops.shape(inputs[f"{side}token_ids"])[1]
