"""An extension of mkdocstrings for the sections of our docstrings; see `mkdocs.yml`.

Doctests stand under "Example:" without an indent, and the arguments of a Keras layer's
call under "Call arguments:".
"""

import re
from typing import Any

try:
    from griffe import Extension  # pyright: ignore[reportMissingImports]
except ImportError:  # outside of the site's environment, where the doctests below run
    Extension = object

_DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1.*\S.*)*", re.MULTILINE)
_CALL = re.compile(r"^( *)Call arguments:\n(?:\1 +.*\n?)+", re.MULTILINE)
_ARGUMENT = re.compile(r"^( *Call arguments:\n)?(    )(\w+): ", re.MULTILINE)


def as_markdown(text: str) -> str:
    r"""Puts doctests into fences, and arguments of calls into a list.

    Example:
    >>> as_markdown("Adds.\n\nExample:\n>>> 1 + 1\n2").splitlines()[3:]
    ['', '```pycon', '>>> 1 + 1', '2', '```']
    >>> print(as_markdown("Call arguments:\n    inputs: float.\n    mask: int."))
    Call arguments:
        - `inputs`: float.
        - `mask`: int.
    """
    text = _DOCTEST.sub(
        lambda test: f"\n{test[1]}```pycon\n{test[0]}\n{test[1]}```", text
    )
    return _CALL.sub(lambda call: _ARGUMENT.sub(r"\1\2- `\3`: ", call[0]), text)


class DocstringExamples(Extension):  # pyright: ignore[reportGeneralTypeIssues]
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each object."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
