"""Paths of this machine, as commands take them."""

import re
from pathlib import Path

from configs.errors import ConfigError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(text: str) -> Path:
    """A path of this machine; `s3://bucket/run` would be a folder called `s3:` here.

    Args:
        text: What stands on the command line.

    Raises:
        ConfigError: It has a scheme.

    Example:
    >>> local_path("runs/mine")
    PosixPath('runs/mine')
    """
    if _SCHEME.match(text):
        raise ConfigError(
            f"{text}: expected a path of this machine. Runs, models and results are "
            "kept on a disk; only corpora can be read from a bucket (data.source.path)"
        )
    return Path(text)
