"""Names for activations inside layers, so that they can be recorded or replaced.

A layer passes an activation through `activation(self, "heads", value)`. Without a hook
that is the value itself, and nothing is added to the graph. Inside `hooked` the hook is
called with the activation's path, such as `encoder_layer_0/self_attention/heads`, and
what it returns takes the activation's place. Activations with a name:

- `BLOCK/self_attention/heads` and `BLOCK/cross_attention/heads`: the heads' outputs
  before the output projection, `(B, T, H, K)`;
- `BLOCK/self_attention/queries` and `keys`, and those of `cross_attention`: after the
  rotation by positions and before scaling, `(B, T, H, K)` and `(B, T, G, K)`; of global
  tokens the first of two projections;
- `BLOCK/feedforward/units`: the activated intermediate vectors, `(B, T, I)`;
- `BLOCK/SUBLAYER_residual/update`: what a sub-layer adds to the residual stream,
  `(B, T, D)`;
- `BLOCK/output`: the output of a block, `(B, T, D)`.

Attention probabilities have a layer of their own,
`transbeam.model.layers.attention.probabilities`, as the attention layer must know
beforehand whether to compute them at all.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import keras

from transbeam.model.kernels.dispatch import setting

Hook = Callable[[str, Any], Any]

# Of the current thread alone: a model can be inspected in one and serve in another.
_hook: ContextVar[Hook | None] = ContextVar("hook", default=None)


def activation(layer: keras.layers.Layer, name: str, value: Any) -> Any:
    """Returns an activation of a layer, or what the current hook puts in its place.

    Args:
        layer: The layer, whose path is the first part of the activation's.
        name: The activation's name within the layer.
        value: The activation.
    """
    hook = _hook.get()
    return value if hook is None else hook(f"{layer.path}/{name}", value)


def hooked(hook: Hook) -> AbstractContextManager[None]:
    """A context in which a hook sees each named activation, and may replace it.

    Functions that were traced before do not call the hook: call the model itself, or
    trace it inside of the context. Of two contexts the inner one counts.

    Args:
        hook: Called with the path and the value; returns the value or a replacement of
            the same shape and dtype.

    Example:
    >>> from transbeam.model.layers.feedforward import FeedForward
    >>> feedforward = FeedForward(hidden_dim=2, intermediate_dim=3, name="mlp")
    >>> def zero(path, value):
    ...     return value * 0
    >>> with hooked(zero):
    ...     float(keras.ops.sum(feedforward(keras.ops.ones((1, 1, 2)))))
    0.0
    """
    return setting(_hook, hook)


@contextmanager
def recorded(*endings: str) -> Iterator[dict[str, Any]]:
    """A context that records the activations whose path has one of the endings.

    Args:
        endings: Endings of paths, such as `"/heads"`; all activations without one.

    Yields:
        The activations by path, in the order of their computation. If a layer is called
        more than once, its last activation.
    """
    seen: dict[str, Any] = {}

    def record(path: str, value: Any) -> Any:
        if not endings or path.endswith(endings):
            seen[path] = value
        return value

    with hooked(record):
        yield seen


def replaced(replacements: Mapping[str, Callable[[Any], Any]]) -> Hook:
    """Makes a hook that replaces the activations of some paths.

    Args:
        replacements: Functions from an activation to its replacement, by path.
    """

    def replace(path: str, value: Any) -> Any:
        return replacements[path](value) if path in replacements else value

    return replace
