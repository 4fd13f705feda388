"""Dropout with a mask that is recomputed, not stored."""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from transbeam.model.kernels.dispatch import setting
from transbeam.model.kernels.elementwise import dropout

_HELD: ContextVar["Seeds | None"] = ContextVar("held", default=None)


@keras.saving.register_keras_serializable(package="transbeam")
class Dropout(keras.layers.Dropout):
    """Keras's dropout with a cheaper mask, which is the same on every backend.

    Args:
        rate: float in `[0, 1)`. Share of the inputs that is dropped in training.
        noise_shape: Shape of the mask: 1 on axes along which elements share a random
            number, None on the others; None for a separate number per element.
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
    """The next seeds of the dropout layers within a layer.

    A rematerialized computation runs twice: both runs must use the same seeds in the
    same order, and the seeds must advance only once.

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

    def held(self) -> AbstractContextManager[None]:
        """In this context, dropout layers use the seeds without advancing them."""
        self._calls = dict.fromkeys(self._first, 0)
        return setting(_HELD, self)

    def next(self, part: Dropout) -> Any:
        """The next seed of a dropout layer."""
        call = self._calls[id(part)]
        self._calls[id(part)] += 1
        return self._after(id(part), call)

    def count(self) -> None:
        """Advances all dropout seeds by the number of seeds used inside the context."""
        for name, generator in self._generators.items():
            generator.state.assign(self._after(name, self._calls[name]))

    def _after(self, name: int, calls: int) -> Any:
        first = self._first[name]
        # The increment of `keras.random.SeedGenerator`.
        return first + ops.convert_to_tensor([0, calls], first.dtype)
