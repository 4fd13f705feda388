"""Tokens and keys, from files: arguments can be seen by everybody."""

import ssl
from collections.abc import Collection
from pathlib import Path

from transbeam.configs.base.errors import ConfigError


def read_token(file: Path | None) -> str | None:
    """Reads a token.

    Args:
        file: Has the token in its one line.

    Raises:
        ConfigError: It cannot be read, or is empty.
    """
    return None if file is None else _content(file)


def read_tokens(file: Path, rights: Collection[str]) -> dict[str, frozenset[str]]:
    """Reads the tokens of a server, and what each is for.

    Args:
        file: Has a token in each line, and behind it what its client may do: all if
            nothing is said. Lines that begin with `#` are for readers.
        rights: All that there are.

    Raises:
        ConfigError: It cannot be read, is empty, or names something else.
    """
    found: dict[str, frozenset[str]] = {}
    for number, line in enumerate(_content(file).splitlines(), 1):
        token, *wanted = line.split() or ["#"]
        if token.startswith("#"):
            continue
        # The token itself is not repeated: what is said here ends up in logs.
        if unknown := [right for right in wanted if right not in rights]:
            raise ConfigError(
                f"{file}, line {number}: {unknown[0]!r} is nothing that a token can be "
                f"for; expected some of {', '.join(rights)}, or nothing for all"
            )
        if token in found:
            raise ConfigError(f"{file}, line {number}: the token is there twice")
        found[token] = frozenset(wanted or rights)
    if not found:
        raise ConfigError(f"{file}: has no token; expected one in each line")
    return found


def _content(file: Path) -> str:
    try:
        content = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    if not content:
        raise ConfigError(f"{file}: is empty; expected the token, in one line")
    return content


def check_pair(certificate: Path, key: Path) -> None:
    """Makes sure that a server can show a certificate.

    Args:
        certificate: PEM file; those of who signed it may follow in it.
        key: PEM file, without a passphrase.

    Raises:
        ConfigError: One of them cannot be read or is something else, or they do not
            belong together.
    """
    check_pem(certificate, "CERTIFICATE")
    check_pem(key, "PRIVATE KEY")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a passphrase to try, it would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key} is not the key of {certificate}") from None
        raise ConfigError(
            f"{certificate} and {key} cannot be used for TLS: "
            f"{error.reason or error}; expected PEM, the key without a passphrase"
        ) from None


def check_pem(file: Path, what: str) -> None:
    """Makes sure that a file has something in PEM.

    Args:
        file: The file.
        what: As PEM calls it, such as `CERTIFICATE`.

    Raises:
        ConfigError: It cannot be read, or has no such thing in it.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if f"{what}-----".encode() not in content:
        raise ConfigError(f"{file}: there is no {what} in it; expected a PEM file")
