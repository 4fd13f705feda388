"""Paths of this machine, as commands take them."""

import re
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(text: str) -> Path:
    """A path of this machine; `s3://bucket/run` would be a folder called `s3:` here.

    Args:
        text: What stands on the command line.

    Raises:
        ConfigError: It has a scheme, or is empty as an unset variable of a shell is.

    Example:
    >>> local_path("runs/mine")
    PosixPath('runs/mine')
    """
    if not text.strip():
        raise ConfigError(
            f"{text!r}: expected a path, found nothing. Is a variable of the shell "
            "empty? The folder you are in is written `.`"
        )
    if _SCHEME.match(text):
        raise ConfigError(
            f"{text}: expected a path of this machine. Runs, models and results are "
            "kept on a disk; only corpora can be read from a bucket (data.source.path)"
        )
    return Path(text)
