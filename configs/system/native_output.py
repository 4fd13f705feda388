"""Suppresses output of C++ libraries to stdout and stderr, except on errors."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator

_STDOUT, STDERR = 1, 2


@contextlib.contextmanager
def output_held_back(*descriptors: int) -> Generator[None, None, None]:
    """Discards output to the process's stdout and stderr; shows it on an error.

    The TFLite converter and interpreter write messages there that cannot be disabled.

    Args:
        descriptors: File descriptors whose output is discarded; those of stdout and
            stderr if left out.

    Example:
    >>> with output_held_back():
    ...     _ = os.write(2, b"INFO: Created a delegate for CPU")
    """
    _flush()
    kept = {number: os.dup(number) for number in descriptors or (_STDOUT, STDERR)}
    with tempfile.TemporaryFile() as held:
        for number in kept:
            os.dup2(held.fileno(), number)
        try:
            yield
        except Exception:  # not Ctrl-C, which is no error of the libraries
            _flush()
            held.seek(0)
            with open(kept[STDERR], "wb", closefd=False) as shown:
                shutil.copyfileobj(held, shown)
            raise
        finally:
            _flush()
            for number, original in kept.items():
                os.dup2(original, number)
                os.close(original)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # the process was started with it closed
            stream.flush()
