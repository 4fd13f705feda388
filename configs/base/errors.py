"""The errors a user can cause, each printed without a traceback (exit code 2).

An error message contains the position (`file:line`, the key, or both), the value found,
the expected value and a remedy. Any other exception is a bug: its traceback is printed
and the exit code is 1. Ctrl-C, a closed stdout and disk errors that the user can fix
are exempt: see `transbeam.configs.cli.arguments.run_main`.
"""


class UserError(Exception):
    """An error that the user can fix. Base class of the errors in this module."""


class ConfigError(UserError):
    """A configuration that cannot be read or does not make sense."""


class DataError(UserError):
    """A corpus or a record that cannot be used."""


class ArtifactError(UserError):
    """A file or folder of a run is missing, modified, or made from other inputs."""
