"""What went wrong in a worker, told as if it had happened here.

Beam passes an exception on in one of two shapes: the same class with words added
(one process), or a RuntimeError whose text is the worker's traceback (several
processes). Either way the user should read the worker's message and nothing else.
"""

import re

from configs import errors

_IN_TRACEBACK = re.compile(
    r"^(?:configs\.errors\.)?(ConfigError|DataError|ArtifactError): (.*?)"
    r"(?: \[while running .*?)?$",
    re.MULTILINE | re.DOTALL,
)
_ADDED = re.compile(r" \[while running .*\Z", re.DOTALL)


def user_error_of(error: BaseException) -> errors.UserError | None:
    """The user's error behind an exception of a Beam run, or None for a bug.

    Example:
    >>> beam_error = RuntimeError(
    ...     "Traceback …\\nconfigs.errors.DataError: no text [while running 'Read-1']"
    ... )
    >>> user_error_of(beam_error)
    DataError('no text')
    """
    if isinstance(error, errors.UserError):
        return type(error)(_ADDED.sub("", str(error)))
    matches = _IN_TRACEBACK.findall(str(error))
    if not matches:
        return None
    name, message = matches[-1]
    return getattr(errors, name)(_ADDED.sub("", message))
