"""Buffers the log of C++ libraries until it is known how the process ends.

TensorFlow 2.21 never initializes Abseil's log, so `TF_CPP_MIN_LOG_LEVEL` cannot
suppress the lines that it writes to stderr when a connection is lost. After a crash
these lines must still be shown, so they are buffered by a helper process, which
outlives the training process.
"""

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

from transbeam.trainer.distribution import native_log_holder

_STDERR = 2


class NativeLog:
    """Captures what C++ libraries write to stderr from now on.

    The captured log is shown when the process ends, unless `drop` is called before.
    What Python writes to `sys.stderr` is not captured. If `TF_CPP_MIN_LOG_LEVEL` is 0
    or 1, nothing is captured and the log is shown at once.
    """

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None
        if os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1") or sys.stderr is None:
            return
        with contextlib.suppress(OSError):  # without the process, the log is shown
            self._holder = subprocess.Popen(
                [sys.executable, "-I", "-S", native_log_holder.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # otherwise Ctrl-C would end it first
            )
            self._redirect(self._holder)

    def drop(self) -> None:
        """Discards the log, after success or an error with a clear message."""
        if self._holder is not None:
            with contextlib.suppress(OSError):
                os.write(_STDERR, native_log_holder.DROP)

    def _redirect(self, holder: subprocess.Popen[bytes]) -> None:
        sys.stderr.flush()
        _rebind(os.dup(_STDERR))
        if holder.stdin is not None:
            os.dup2(holder.stdin.fileno(), _STDERR)
            holder.stdin.close()


def _rebind(descriptor: int) -> None:
    """Redirects Python's `sys.stderr` to another file descriptor."""
    before = sys.stderr
    sys.stderr = io.TextIOWrapper(
        os.fdopen(descriptor, "wb", 0),
        before.encoding,
        "backslashreplace",
        line_buffering=True,
    )
    for handler in _handlers():
        if handler.stream is before:
            handler.setStream(sys.stderr)


def _handlers() -> Iterator[logging.StreamHandler]:
    for logger in (logging.getLogger(), *logging.Logger.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler):
                yield handler
