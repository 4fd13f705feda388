"""Local paths as arguments of commands."""

import re
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(text: str) -> Path:
    """Parses a local path; a URL such as `s3://bucket/run` is an error.

    Args:
        text: The argument of the command line.

    Raises:
        ConfigError: The path has a scheme, or is empty, as from an unset shell
            variable.

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
