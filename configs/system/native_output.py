"""Suppresses output of C++ libraries to stdout and stderr, except on errors."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def output_on_error(*, stdout: bool = True) -> Generator[None, None, None]:
    """Discards output to the process's stdout and stderr; shows it on an error.

    The TFLite converter and interpreter write messages to stdout and stderr that cannot
    be disabled.

    Args:
        stdout: If true, the output to stdout is discarded too.

    Example:
    >>> with output_on_error():
    ...     _ = os.write(2, b"INFO: Created a delegate for CPU")
    """
    _flush()
    numbers = (_STDOUT, _STDERR) if stdout else (_STDERR,)
    kept = {number: os.dup(number) for number in numbers}
    with tempfile.TemporaryFile() as held:
        for number in kept:
            os.dup2(held.fileno(), number)
        try:
            yield
        except Exception:  # not Ctrl-C, which is no error of the libraries
            _flush()
            held.seek(0)
            with open(kept[_STDERR], "wb", closefd=False) as shown:
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
