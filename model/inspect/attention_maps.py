"""Reads the attention probabilities of a model."""

from contextlib import ExitStack
from typing import Any

import keras

from transbeam.model.layers.attention.probabilities import Probabilities

# Suffixes of a layer's path, in the order of its calls of `probabilities`: all queries;
# then the few queries that attend to the whole document, of global tokens or outermost
# blocks.
ENDINGS = ("", "/global")


def attention_probabilities(
    model: keras.Model, inputs: dict[str, Any]
) -> dict[str, Any]:
    """Returns the attention probabilities of every layer for the given inputs.

    The model is called once, eagerly, and is not changed: the outputs of the layers
    named `probabilities` are recorded during the call.

    Shapes: `B` batch, `H` heads, `T` queries, `S` keys; for blockwise kinds, `N` blocks
    of `b` tokens.

    Args:
        model: A model of `transbeam.model`.
        inputs: The model's inputs, by name.

    Returns:
        The probabilities by the path of their attention layer, such as
        `encoder_layer_0/self_attention`: float32 `(B, H, T, S)` for full attention, and
        for low-rank attention with its projected keys as `S`. For sliding windows the
        probabilities are `(N, B, H, b, S)`, with the keys of a block's window as `S`.
        Global window and block sparse attention have two entries, because some queries
        (global tokens, or outermost blocks) attend to their whole document. The first
        entry, under the layer's path, has shape `(N, B, H, b, S)`, with the keys of a
        window and then the distant keys as `S`; its rows for queries that attend to
        their whole document have no meaning. The second entry, under the layer's path
        with `/global` appended, has the probabilities of the queries that attend to
        their whole document, `(N, B, H, T, b)`, one block of keys after the other,
        which sum to one over all blocks. Kernel attention has no probabilities and is
        omitted.

    Example:
    >>> import numpy as np
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ones = np.ones((1, 3), "int32")
    >>> maps = attention_probabilities(
    ...     encoder, {"token_ids": ones, "padding_mask": ones}
    ... )
    >>> {path: tuple(map.shape) for path, map in maps.items()}
    {'encoder_layer_0/self_attention': (1, 4, 3, 3)}
    """
    with ExitStack() as stack:
        seen = {
            layer.path.rpartition("/")[0]: stack.enter_context(layer.watch())
            for layer in model._flatten_layers()
            if isinstance(layer, Probabilities)
        }
        model(inputs, training=False)
    return {
        path + ending: probabilities
        for path, maps in seen.items()
        for ending, probabilities in zip(ENDINGS, maps, strict=False)
    }
