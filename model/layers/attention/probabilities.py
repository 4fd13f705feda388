"""The place where an analysis reads attention probabilities."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

# Who watches which layer: a thread sees its own watchers only, so that a model can be
# looked into in one and serve in another.
_watching: ContextVar[tuple[tuple["Probabilities", list[Any]], ...]] = ContextVar(
    "watching", default=()
)


@keras.saving.register_keras_serializable(package="transbeam")
class Probabilities(keras.layers.Layer):
    """Does nothing: its name is where attention probabilities can be read.

    An attention layer that nobody watches is free never to make them: its fused path
    gives the same outputs without a `T x T` tensor. Watching is a matter of one thread:
    calls in others stay fused and are not seen.

    Call arguments:
        inputs: float32, the probabilities; their shape is the attention kind's.

    Returns:
        `inputs`.

    Example:
    >>> layer = Probabilities()
    >>> with layer.watch() as seen:
    ...     outputs = layer(keras.ops.ones((1, 2)))
    >>> len(seen), layer.watched
    (1, False)

    Masking: the Keras mask means nothing here.
    """

    @property
    def watched(self) -> bool:
        """Checks that this thread records the attention probabilities."""
        return any(layer is self for layer, _ in _watching.get())

    @contextmanager
    def watch(self) -> Iterator[list[Any]]:
        """Collects what passes through, as long as the context lasts.

        A function that was traced before does not notice: call the model itself, or
        trace anew.
        """
        seen: list[Any] = []
        _watching.set((*_watching.get(), (self, seen)))
        try:
            yield seen
        finally:
            # By identity: two lists that have seen nothing are equal.
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
