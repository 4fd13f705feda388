"""The errors a user can cause, each printed without a traceback (exit code 2).

A message contains the position, the value found, the expected one and a remedy.
Anything that is not a `UserError` is a bug: it keeps its traceback and exits with 1.
"""


class UserError(Exception):
    """An error that the user can fix. Base class of the three classes below."""


class ConfigError(UserError):
    """A configuration that cannot be read or does not make sense."""


class DataError(UserError):
    """A corpus or a record that cannot be used."""


class ArtifactError(UserError):
    """A file or folder of a run is missing, modified, or made from other inputs."""
