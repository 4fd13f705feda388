"""Dropout with a mask that is computed, not kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from transbeam.model.kernels.dropout import dropout

_HELD: ContextVar["Seeds | None"] = ContextVar("held", default=None)


@keras.saving.register_keras_serializable(package="transbeam")
class Dropout(keras.layers.Dropout):
    """As Keras's layer; the same mask on every backend, and at a fraction of the cost.

    Args:
        rate: float in `[0, 1)`. Share of the inputs that is dropped in training.
        noise_shape: Where elements share a draw: 1 on the axes they share, None on the
            others; None if none do.
        seed: int or None.

    Example:
    >>> layer = Dropout(0.5, seed=1)
    >>> x = keras.ops.ones((1, 4))
    >>> bool(keras.ops.all(layer(x) == x))  # outside of training
    True
    """

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        held = _HELD.get()
        seed = self.seed_generator.next() if held is None else held.next(self)
        seed = ops.cast(seed, "uint32")
        if self.noise_shape is None:
            return dropout(inputs, self.rate, seed)
        sizes = ops.shape(inputs)
        shape = [
            size if shared is None else shared
            for size, shared in zip(sizes, self.noise_shape, strict=True)
        ]
        return inputs * dropout(ops.ones(shape, self.compute_dtype), self.rate, seed)


class Seeds:
    """The seeds that the dropouts within a layer are about to draw.

    What is computed twice must draw the same both times, in the order of its calls; and
    be counted once, so that nothing after it draws otherwise.

    Args:
        layer: Any layer.
    """

    def __init__(self, layer: keras.layers.Layer):
        parts = [part for part in layer._flatten_layers() if isinstance(part, Dropout)]
        self._generators = {
            id(part): part.seed_generator for part in parts if part.rate > 0
        }
        self._first = {
            name: ops.copy(generator.state.value)
            for name, generator in self._generators.items()
        }
        self._calls: dict[int, int] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, dropouts draw these seeds from the first on, and count nothing."""
        self._calls = dict.fromkeys(self._first, 0)
        token = _HELD.set(self)
        try:
            yield
        finally:
            _HELD.reset(token)

    def next(self, part: Dropout) -> Any:
        """A dropout's next seed."""
        call = self._calls[id(part)]
        self._calls[id(part)] += 1
        return self._after(id(part), call)

    def count(self) -> None:
        """Moves all dropouts on by what was drawn inside."""
        for name, generator in self._generators.items():
            generator.state.assign(self._after(name, self._calls[name]))

    def _after(self, name: int, calls: int) -> Any:
        first = self._first[name]
        # As `keras.random.SeedGenerator` goes on.
        return first + ops.convert_to_tensor([0, calls], first.dtype)
