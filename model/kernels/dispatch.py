"""Selects the plain or the fast implementation of a kernel.

Fast implementations compute the same values and gradients as the plain ones. Callers
need not choose an implementation, except for exports, whose runtimes lack some of the
fast implementations' ops.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import keras

T = TypeVar("T")

# With fewer tokens, launching the XLA kernel takes longer than the ops it replaces.
FEWEST_TOKENS = 64

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)
_FOR_PHONES: ContextVar[bool] = ContextVar("for_phones", default=False)
_IN_INT8: ContextVar[bool] = ContextVar("in_int8", default=False)


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Sets a context variable while the context is open.

    Example:
    >>> with setting(_PLAIN, True):
    ...     is_plain()
    True
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def plain() -> AbstractContextManager[None]:
    """A context in which traced functions use only ops that every runtime has.

    XLA is not used, because TFLite does not support it; nor are custom gradients, since
    TensorFlow warns about missing ones when it loads a SavedModel.

    Example:
    >>> with plain():
    ...     is_plain()
    True
    >>> is_plain()
    False
    """
    return setting(_PLAIN, True)


@contextmanager
def for_phones(*, in_int8: bool = False) -> Iterator[None]:
    """A context in which traced functions use only plain ops that TFLite has.

    Args:
        in_int8: True if all tensors of the model will be int8, so that no tensor may
            mix large and small values.

    Example:
    >>> with for_phones():
    ...     is_plain(), is_for_phones()
    (True, True)
    """
    with plain(), setting(_FOR_PHONES, True), setting(_IN_INT8, in_int8):
        yield


def is_for_phones() -> bool:
    """True inside `for_phones`."""
    return _FOR_PHONES.get()


def is_in_int8() -> bool:
    """True inside `for_phones(in_int8=True)`."""
    return _IN_INT8.get()


def is_plain() -> bool:
    """True inside `plain`."""
    return _PLAIN.get()


def on_tensorflow() -> bool:
    """True if Keras's backend is TensorFlow."""
    return keras.backend.backend() == "tensorflow"


def in_tensorflow_graph() -> bool:
    """True if ops add nodes to a TensorFlow graph, instead of being executed."""
    if not on_tensorflow():
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def has_many_tokens(x: Any) -> bool:
    """Checks if a tensor is large enough for an XLA kernel to pay off.

    Args:
        x: float `(..., D)`, of any number of vectors.
    """
    count = 1
    for size in x.shape[:-1]:
        if size is None:
            return True
        count *= size
    return count >= FEWEST_TOKENS
