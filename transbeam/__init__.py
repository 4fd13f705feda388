"""Transbeam: from your own corpus to a served Transformer, on the TensorFlow stack.

The packages are at the top level of the repository and are imported as
`transbeam.configs`, `transbeam.pipeline`, `transbeam.model`, `transbeam.trainer` and
`transbeam.serving`.
"""

from collections.abc import Sequence

from transbeam import keras_registry
from transbeam.configs.base.version import VERSION as __version__

keras_registry.register()

__all__ = ["__version__", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the `transbeam` command.

    Args:
        argv: The command's arguments; by default those of the process.

    Returns:
        The exit status: 0, or 2 for a user error.
    """
    from transbeam.__main__ import main

    return main(argv)
