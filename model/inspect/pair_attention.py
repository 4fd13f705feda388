"""Attention between the two texts of a pair, per head."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.head_observation import observe_heads
from transbeam.model.layers.attention.attended_keys import ProjectedKeys


class PairAttention(NamedTuple):
    """Attention between two texts, sums over pairs of tokens: float32 (B, H).

    Attributes:
        to_second: From tokens of the first text to tokens of the second one.
        to_first: From tokens of the second text to tokens of the first one.
    """

    to_second: Any
    to_first: Any


def pair_attention(
    model: keras.Model, inputs: Mapping[str, Any], first: Any, second: Any
) -> dict[str, PairAttention]:
    """Computes how much each head attends from one text of a pair to the other.

    The sums are over all queries of one text and all keys of the other. A layer's
    weights are reduced as soon as they are computed. Call it eagerly, or traced.

    Args:
        model: A model of `transbeam.model`, for rows of one pair each.
        inputs: The model's inputs by name.
        first: (B, T). 1 for the tokens of the first text, 0 for all others, among them
            special tokens and padding.
        second: (B, T). The same for the second text.

    Returns:
        The sums of each layer by the layer's path. Low-rank attention, which attends to
        projections of both texts at once, and kernel attention are omitted.

    Raises:
        ConfigError: The model is for packed rows, is an encoder-decoder, or has no
            attention weights of tokens.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ones = ops.ones((1, 2), dtype="int32")
    >>> inputs = {"token_ids": ones, "padding_mask": ones}
    >>> found = pair_attention(encoder, inputs, ops.eye(2)[:1], ops.eye(2)[1:])
    >>> tuple(found["encoder_layer_0/self_attention"].to_second.shape)
    (1, 4)
    """
    if "token_ids" not in model.input:
        raise ConfigError(
            f"model {model.name}: reads {', '.join(model.input)}; expected a model "
            "that reads both texts of a pair in one row"
        )
    # By text: (B, T, 2).
    members = ops.stack([ops.cast(x, "float32") for x in (first, second)], axis=-1)
    sums: dict[str, list[Any]] = {}

    def observe(layer, keys, weights):
        if isinstance(keys, ProjectedKeys):
            return
        by_text = ops.matmul(weights.values, weights.at_keys(members))
        by_text = weights.sum_by_query(by_text)  # (B, H, T, 2)
        between = ops.einsum("bhtk,btq->bhqk", by_text, members)
        sums.setdefault(layer.path, []).append(between)

    with observe_heads(model, observe):
        model(inputs, training=False)
    if not sums:
        raise ConfigError(
            f"model {model.name}: attends to projections of a text only, which are of "
            "both texts at once. Use another kind of attention"
        )
    # Some queries have weights of their own kind, in a second call.
    totals = {path: sum(found[1:], found[0]) for path, found in sums.items()}
    return {
        path: PairAttention(total[:, :, 0, 1], total[:, :, 1, 0])
        for path, total in totals.items()
    }
