"""An identity layer at which attention probabilities can be recorded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

from transbeam.model.layers.attention.attended_keys import AttendedKeys

# Makes the description of the keys; only for layers called by attention.
MakeKeys = Callable[[], AttendedKeys] | None
Observer = Callable[[Any, MakeKeys], None]

# The watched layers of each thread, so that a model can be inspected in one thread and
# serve requests in another.
_watching: ContextVar[tuple[tuple["Probabilities", Observer], ...]] = ContextVar(
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
        keys: Makes the `AttendedKeys` that the probabilities belong to.

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
        with self.observe(lambda probabilities, keys: seen.append(probabilities)):
            yield seen

    @contextmanager
    def observe(self, observer: Observer) -> Iterator[None]:
        """Calls a function with the layer's inputs while the context is open.

        What the function makes of the probabilities may be kept instead of them: so
        those of one layer can be freed before the next layer computes its own.

        Args:
            observer: Called with the inputs, and with a function that makes the
                description of their keys. It may be traced with the model.
        """
        pair = (self, observer)
        _watching.set((*_watching.get(), pair))
        try:
            yield
        finally:
            _watching.set(tuple(one for one in _watching.get() if one is not pair))

    def call(self, inputs, keys: MakeKeys = None):
        for layer, observer in _watching.get():
            if layer is self:
                observer(inputs, keys)
        return inputs

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
