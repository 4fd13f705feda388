"""Redirects the output of Beam and TensorFlow during a job to a log file.

Beam's worker processes inherit file descriptor 2 and write to it. Our own messages are
written to `sys.stderr`, which still reaches the terminal.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from transbeam.configs.base.atomic_files import writing

TAIL = 30


@contextmanager
def chatter_to(path: Path) -> Iterator[None]:
    """Redirects file descriptor 2 to a file; `sys.stderr` still reaches the user."""
    sys.stderr.flush()
    terminal = os.dup(2)
    before = sys.stderr
    with writing(path), open(path, "ab") as log:
        os.dup2(log.fileno(), 2)
    sys.stderr = os.fdopen(terminal, "w", buffering=1, closefd=False)
    try:
        yield
    except KeyboardInterrupt:
        raise  # abandoned threads keep writing until the process ends
    except BaseException:
        _restore(terminal, before)
        raise
    else:
        _restore(terminal, before)


def _restore(terminal: int, stderr: TextIO) -> None:
    sys.stderr.flush()
    os.dup2(terminal, 2)
    sys.stderr = stderr
    os.close(terminal)


def tail(path: Path) -> str:
    """Returns the last lines of a log, for unexpected failures."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-TAIL:])
