"""The place where an analysis reads attention probabilities."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras


@keras.saving.register_keras_serializable(package="transbeam")
class Probabilities(keras.layers.Layer):
    """Does nothing: its name is where attention probabilities can be read.

    An attention layer that nobody watches is free never to make them: its fused path
    gives the same outputs without a `T x T` tensor.

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

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._watchers: list[list[Any]] = []

    @property
    def watched(self) -> bool:
        """Whether someone wants to see the probabilities."""
        return bool(self._watchers)

    @contextmanager
    def watch(self) -> Iterator[list[Any]]:
        """Collects what passes through, as long as the context lasts.

        A function that was traced before does not notice: call the model itself, or
        trace anew.
        """
        seen: list[Any] = []
        self._watchers.append(seen)
        try:
            yield seen
        finally:
            # By identity: two lists that have seen nothing are equal.
            self._watchers = [other for other in self._watchers if other is not seen]

    def call(self, inputs):
        for seen in self._watchers:
            seen.append(inputs)
        return inputs

    def compute_output_shape(self, inputs_shape):
        return inputs_shape
