"""Suppresses output of C++ libraries to stdout and stderr, except on errors."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def output_held_back() -> Generator[None, None, None]:
    """Discards output to the process's stdout and stderr; shows it on an error.

    The TFLite converter and interpreter write there, and it cannot be switched off.

    Example:
    >>> with output_held_back():
    ...     _ = os.write(2, b"INFO: Created a delegate for CPU")
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (_STDOUT, _STDERR)}
    with tempfile.TemporaryFile() as held:
        for number in kept:
            os.dup2(held.fileno(), number)
        try:
            yield
        except BaseException:
            sys.stdout.flush()
            sys.stderr.flush()
            held.seek(0)
            os.write(kept[_STDERR], held.read())
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, original in kept.items():
                os.dup2(original, number)
                os.close(original)
