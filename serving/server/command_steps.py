"""Steps that the commands `serve` and `studio` share."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.cli.console import Console
from transbeam.serving.base.credentials import check_key_pair, read_tokens
from transbeam.serving.server.arguments import RIGHTS, AccessArguments

if TYPE_CHECKING:  # it imports gRPC, which takes half a second
    from transbeam.serving.server.base.auth import AccessTokens


def check_certificate(arguments: AccessArguments) -> None:
    """Checks that certificate and key are given together and belong together.

    Raises:
        ConfigError: One of them is missing, or they do not fit.
    """
    if (arguments.certificate is None) != (arguments.key is None):
        raise ConfigError("TLS needs both --certificate FILE and --key FILE")
    if arguments.certificate is not None and arguments.key is not None:
        check_key_pair(arguments.certificate, arguments.key)


def access_tokens(token_file: Path | None) -> "AccessTokens":
    """Reads the accepted tokens; without a file, requests need none.

    Raises:
        ConfigError: The file cannot be read, or names an unknown right.
    """
    from transbeam.serving.server.base.auth import AccessTokens, Right

    rights = {} if token_file is None else read_tokens(token_file, RIGHTS)
    return AccessTokens(
        {token: frozenset(map(Right, of)) for token, of in rights.items()}
    )


def log_to(console: Console) -> None:
    """Prints the server's log records to the console."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            is_warning = record.levelno >= logging.WARNING
            write = console.warn if is_warning else console.say
            write(self.format(record))

    log = logging.getLogger("transbeam.serve")
    log.handlers[:] = [Handler()]
    log.setLevel(logging.INFO)
    log.propagate = False
