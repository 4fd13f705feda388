"""Chooses between the plain and the fast form of a kernel.

The fast ones give the same values and the same gradients. Which of them runs is
nobody else's business, but for an export, which must do without some.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

# With fewer tokens, starting XLA's kernel takes longer than the small ops it saves.
FEWEST_TOKENS = 64

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)
_FOR_PHONES: ContextVar[bool] = ContextVar("for_phones", default=False)
_IN_INT8: ContextVar[bool] = ContextVar("in_int8", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """Limits functions that are traced inside to ops that every runtime has.

    No part of it is left to XLA, which TFLite cannot take, and no gradient is written
    by hand, for want of which TensorFlow warns when it loads a SavedModel.

    Example:
    >>> with plain():
    ...     is_plain()
    True
    >>> is_plain()
    False
    """
    token = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(token)


@contextmanager
def for_phones(*, in_int8: bool = False) -> Iterator[None]:
    """Limits functions traced inside to plain ops that TFLite has kernels for.

    Args:
        in_int8: Whether all numbers of the model will be of eight bits, so that no
            tensor may have both large and small ones.

    Example:
    >>> with for_phones():
    ...     is_plain(), is_for_phones()
    (True, True)
    """
    tokens = _FOR_PHONES.set(True), _IN_INT8.set(in_int8)
    try:
        with plain():
            yield
    finally:
        _FOR_PHONES.reset(tokens[0])
        _IN_INT8.reset(tokens[1])


def is_for_phones() -> bool:
    """Checks that the code runs inside `for_phones`."""
    return _FOR_PHONES.get()


def is_in_int8() -> bool:
    """Checks that the code runs inside `for_phones(in_int8=True)`."""
    return _IN_INT8.get()


def is_plain() -> bool:
    """Checks that the code runs inside `plain`."""
    return _PLAIN.get()


def on_tensorflow() -> bool:
    """Checks that Keras's backend is TensorFlow."""
    return keras.backend.backend() == "tensorflow"


def in_tensorflow_graph() -> bool:
    """Checks that ops add nodes to a TensorFlow graph, instead of being executed."""
    if not on_tensorflow():
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def has_many_tokens(x: Any) -> bool:
    """Checks that a tensor is large enough for an XLA kernel to pay off.

    Args:
        x: float `(..., D)`, of any number of vectors.
    """
    count = 1
    for size in x.shape[:-1]:
        if size is None:
            return True
        count *= size
    return count >= FEWEST_TOKENS
