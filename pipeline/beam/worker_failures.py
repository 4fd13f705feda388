"""Passes user errors from workers to the main process.

Beam forwards a worker's exception in one of several forms: with text added to it, or as
a RuntimeError whose text contains the worker's traceback, once or twice. So a user
error is sent as a marked line of JSON, which can be found in each of these forms.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from transbeam.configs.base import errors

_OPEN, _CLOSE = "<<user error ", ">>"
_MARKED = re.compile(re.escape(_OPEN) + r"(\[.*?\])" + re.escape(_CLOSE))


class WorkerFailure(Exception):
    """A user error as a line of JSON, which is preserved in Beam's exceptions."""


@contextmanager
def marked_user_errors() -> Iterator[None]:
    """Marks user errors raised in the `with` block, for `find_user_error`.

    Example:
    >>> try:
    ...     with marked_user_errors():
    ...         raise errors.DataError("no text")
    ... except WorkerFailure as failure:
    ...     beam_error = RuntimeError(f"Traceback …: {failure} [while running 'Read']")
    >>> find_user_error(beam_error)
    DataError('no text')
    """
    try:
        yield
    except errors.UserError as error:
        content = json.dumps([type(error).__name__, str(error)])
        raise WorkerFailure(f"{_OPEN}{content}{_CLOSE}") from error


def find_user_error(error: BaseException) -> errors.UserError | None:
    """Returns the user error in an exception of a Beam run; None for a bug."""
    if isinstance(error, errors.UserError):
        return error
    found = _MARKED.search(str(error))
    if found is None:
        return None
    name, message = json.loads(found[1])
    return getattr(errors, name)(message)
