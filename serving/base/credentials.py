"""Reads secrets from files, as command-line arguments are visible to other users."""

import ssl
from collections.abc import Collection
from pathlib import Path

from transbeam.configs.base.errors import ConfigError


def read_token(file: Path | None) -> str | None:
    """Reads an access token from a file.

    Args:
        file: A file with a single line, the token.

    Raises:
        ConfigError: The file cannot be read, or is empty.
    """
    return None if file is None else _content(file)


def read_tokens(file: Path, rights: Collection[str]) -> dict[str, frozenset[str]]:
    """Reads the access tokens of a server and the rights of each.

    Args:
        file: A file with one token per line, followed by the token's rights; a token
            without listed rights has all rights. Lines that begin with `#` are
            comments.
        rights: All rights that exist.

    Raises:
        ConfigError: The file cannot be read, is empty, or lists an unknown right.
    """
    found: dict[str, frozenset[str]] = {}
    for number, line in enumerate(_content(file).splitlines(), 1):
        token, *wanted = line.split() or ["#"]
        if token.startswith("#"):
            continue
        # The message omits the token: error messages end up in logs.
        if unknown := [right for right in wanted if right not in rights]:
            raise ConfigError(
                f"{file}, line {number}: {unknown[0]!r} is no right of a token; "
                f"expected some of {', '.join(rights)}, or nothing for all rights"
            )
        if token in found:
            raise ConfigError(f"{file}, line {number}: the token is listed twice")
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


def check_key_pair(certificate: Path, key: Path) -> None:
    """Checks that a server can use a TLS certificate with its private key.

    Args:
        certificate: PEM file with the server's certificate, which the certificates of
            its issuers may follow.
        key: PEM file, without a passphrase.

    Raises:
        ConfigError: A file cannot be read or does not contain a certificate or key, or
            the key does not belong to the certificate.
    """
    check_pem(certificate, "CERTIFICATE")
    check_pem(key, "PRIVATE KEY")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password argument, `ssl` would prompt for one at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key} is not the key of {certificate}") from None
        raise ConfigError(
            f"{certificate} and {key} cannot be used for TLS: "
            f"{error.reason or error}; expected PEM, the key without a passphrase"
        ) from None


def check_pem(file: Path, what: str) -> None:
    """Checks that a PEM file contains an object of a given type.

    Args:
        file: The file.
        what: The PEM label, such as `CERTIFICATE`.

    Raises:
        ConfigError: The file cannot be read, or contains no object of this type.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if f"{what}-----".encode() not in content:
        raise ConfigError(f"{file}: there is no {what} in it; expected a PEM file")
