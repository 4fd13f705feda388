"""Reads the weights of all heads of a model while it computes them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.model.inspect.head_weights import HeadWeights, arrange_weights
from transbeam.model.layers.attention.attended_keys import AttendedKeys
from transbeam.model.layers.attention.base_attention import Attention
from transbeam.model.layers.attention.kernel_attention import KernelAttention

Observer = Callable[[Attention, AttendedKeys, HeadWeights], None]


@contextmanager
def observe_heads(model: keras.Model, observer: Observer) -> Iterator[None]:
    """Calls a function with each layer's weights while the context is open.

    The function is called as soon as a layer has computed its probabilities, and again
    for the queries that attend to the whole document in a kind of attention that has
    such. It can reduce the weights, eagerly or traced: then only one layer's weights
    exist at a time. Only calls of the model in the current thread are observed, and
    traced functions only if they are traced inside of the context.

    Args:
        model: A model of `transbeam.model`, for rows of one text each.
        observer: Called with the attention layer, the description of the keys, and the
            weights.

    Raises:
        ConfigError: The model is for packed rows, or none of its layers has
            probabilities.

    Example:
    >>> from transbeam.configs.schema.model import EncoderConfig
    >>> from transbeam.model.encoder import build_encoder
    >>> encoder = build_encoder(EncoderConfig(num_layers=1, hidden_dim=8), 10)
    >>> ones = keras.ops.ones((1, 3), dtype="int32")
    >>> def show(layer, keys, weights):
    ...     print(layer.path, tuple(weights.values.shape))
    >>> with observe_heads(encoder, show):
    ...     outputs = encoder({"token_ids": ones, "padding_mask": ones})
    encoder_layer_0/self_attention (1, 4, 3, 3)
    """
    layers = check_observable(model)
    with ExitStack() as stack:
        for layer in layers:
            one = partial(_observe, observer, layer)
            stack.enter_context(layer.probabilities.observe(one))
        yield


def _observe(observer: Observer, layer: Attention, probabilities: Any, make_keys):
    keys = make_keys()
    observer(layer, keys, arrange_weights(probabilities, keys))


def check_observable(model: keras.Model) -> list[Attention]:
    """Checks that the heads of a model can be observed.

    Args:
        model: A model of `transbeam.model`.

    Returns:
        The layers that have probabilities.

    Raises:
        ConfigError: The model is for packed rows, or none of its layers has
            probabilities.
    """
    layers = layers_with_probabilities(model)
    packed = [name for name in model.input if name.endswith("document_ids")]
    if packed:
        raise ConfigError(
            f"model {model.name}: the input {packed[0]} is for packed rows; expected "
            "one text per row. Build the model with packed=False"
        )
    if not layers:
        raise ConfigError(
            f"model {model.name}: none of its layers has attention probabilities; "
            "kernel attention never computes any. Use another kind of attention"
        )
    return layers


def layers_with_probabilities(model: keras.Model) -> list[Attention]:
    """Returns the attention layers that have probabilities, in the order of the model.

    Args:
        model: A model of `transbeam.model`.
    """
    layers = [x for x in model._flatten_layers() if isinstance(x, Attention)]
    return [layer for layer in layers if not isinstance(layer, KernelAttention)]
