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
    found: dict[str, Any] = {}

    def unfold(layer: Attention, keys: AttendedKeys, weights: HeadWeights) -> None:
        if isinstance(layer, LowRankAttention):
            return
        pairs = weights.values
        if not isinstance(weights, RowWeights):
            batch = ops.shape(pairs)[1]
            one_hot = ops.eye(_count_tokens(inputs, layer.path), dtype="float32")
            one_hot = ops.repeat(one_hot[None], batch, axis=0)
            pairs = weights.sum_by_query(ops.matmul(pairs, weights.at_keys(one_hot)))
        # Global tokens, or outermost blocks, come after all other queries.
        found[layer.path] = found.get(layer.path, 0.0) + pairs

    with observe_heads(model, unfold):
        model(inputs, training=False)
    return found


def _count_tokens(inputs: Mapping[str, Any], path: str) -> int:
    """Returns the number of tokens of the row that a layer's self-attention reads."""
    side = "" if "token_ids" in inputs else f"{path.partition('_')[0]}_"
    return ops.shape(inputs[f"{side}token_ids"])[1]
