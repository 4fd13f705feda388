"""An identity layer at which attention probabilities can be recorded."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

# The watched layers of each thread, so that a model can be inspected in one thread and
# serve requests in another.
_watching: ContextVar[tuple[tuple["Probabilities", list[Any]], ...]] = ContextVar(
    "watching", default=()
)


@keras.saving.register_keras_serializable(package="transbeam")
class Probabilities(keras.layers.Layer):
    """An identity layer, at which attention probabilities can be recorded.

    If this layer is not recorded, attention need not compute the probabilities: its
    fused path has the same outputs without a `T x T` tensor. Only the current thread is
    recorded: calls in other threads stay fused and are not recorded.

    Call arguments:
        inputs: float32, the probabilities; their shape depends on the kind of
            attention.

    Returns:
        `inputs`.

    Example:
    >>> layer = Probabilities()
    >>> with layer.watch() as seen:
    ...     outputs = layer(keras.ops.ones((1, 2)))
    >>> len(seen), layer.watched
    (1, False)

    Masking: the Keras mask is ignored.
    """

    @property
    def watched(self) -> bool:
        """True if the current thread records the attention probabilities."""
        return any(layer is self for layer, _ in _watching.get())

    @contextmanager
    def watch(self) -> Iterator[list[Any]]:
        """Records the layer's inputs while the context is open.

        Functions that were traced before are not recorded: call the model itself, or
        trace again.
        """
        seen: list[Any] = []
        _watching.set((*_watching.get(), (self, seen)))
        try:
            yield seen
        finally:
            # Compared by identity, because two empty lists are equal.
            _watching.set(
                tuple(pair for pair in _watching.get() if pair[1] is not seen)
            )

    def call(self, inputs):
        for layer, seen in _watching.get():
            if layer is self:
                seen.append(inputs)
        return inputs

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
