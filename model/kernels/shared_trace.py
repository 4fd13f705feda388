"""Traces identical layers only once.

TensorFlow builds a graph op by op in Python, again for each layer, though the blocks of
a stack differ only in their weights; and it optimizes twelve identical blocks twelve
times. With a shared trace, the first layer is traced as a function of its weights, and
the other layers call this function with their own weights. A shared trace halves the
time to first token of a GPT-2 with twelve blocks. On JAX, each layer is called as
usual, without a shared trace.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import keras

from transbeam.model.kernels.dispatch import in_tensorflow_graph, is_plain


def share_trace(
    layers: Sequence[keras.layers.Layer], call: Callable[..., Any]
) -> list[Callable[..., Any]]:
    """Binds each layer as the first argument of `call`, with a shared trace.

    Use the returned functions at one place in a graph only, because their traces are
    never discarded.

    Args:
        layers: Built layers. Layers with the same settings and with weights of the same
            shapes and dtypes share a trace.
        call: `call(layer, *arguments)`: a pure function of its arguments, which does
            not change weights.

    Returns:
        Functions of `*arguments`, which are nested structures of tensors, None and
        numbers.

    Example:
    >>> layers = [keras.layers.Dense(2), keras.layers.Dense(2)]
    >>> for layer in layers:
    ...     layer.build((None, 3))
    >>> first, second = share_trace(layers, lambda layer, x: layer(x))
    >>> second(keras.ops.ones((1, 3))).shape == (1, 2)
    True
    """
    if is_plain() or not in_tensorflow_graph():
        return [partial(call, layer) for layer in layers]
    traces: dict[Hashable, Callable] = {}
    shared = []
    for layer in layers:
        kind = _kind(layer)
        if kind not in traces:
            traces[kind] = _of_any_weights(call, layer)
        shared.append(_with_weights(traces[kind], layer))
    return shared


def _of_any_weights(call, layer):
    import tensorflow as tf

    # Not inlined, so that the function is optimized only once too.
    @tf.function(autograph=False, experimental_attributes={"_noinline": True})
    def traced(values, *arguments):
        # Variables that wait elsewhere for a value must not get it in this graph.
        with keras.StatelessScope(initialize_variables=False) as scope:
            for pair in zip(layer.variables, values, strict=True):
                scope.add_update(pair)
            return call(layer, *arguments)

    return traced


def _with_weights(traced, layer):
    return lambda *arguments: traced([v.value for v in layer.variables], *arguments)


def _kind(layer) -> Hashable:
    """A key that is equal for layers that differ only in names, seeds and weights."""
    settings = tuple(
        (type(part), _without_names(part.get_config()))
        for part in layer._flatten_layers()
    )
    return settings, tuple((tuple(v.shape), v.dtype) for v in layer.variables)


def _without_names(config) -> str:
    return re.sub(r"'seed': \d+", "", repr({**config, "name": None}))
