"""The few pieces that decide speed: a plain version of each, and a faster one.

The faster ones give the same values and the same gradients. Which of them runs is
nobody else's business, but for an export, which must do without some.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import keras

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


@contextmanager
def plain() -> Iterator[None]:
    """What is traced in here has only ops that every runtime knows.

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


def is_plain() -> bool:
    """Whether the code runs inside `plain`."""
    return _PLAIN.get()


def on_tensorflow() -> bool:
    """Whether Keras's backend is TensorFlow."""
    return keras.backend.backend() == "tensorflow"
