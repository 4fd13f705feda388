"""Requests rejected by the HTTP server before the application is called."""

import re
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from transbeam.serving.server.protocol.json_text import error_text

_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=%:\[\]-]*")


class Refused(Exception):
    """Rejects a request before the application is called.

    Attributes:
        status: HTTP status code.
        message: The message for the client.
        reason: Name of the exceeded limit, for the metrics.
    """

    def __init__(self, status: int, message: str, reason: str):
        super().__init__(message)
        self.status = status
        self.message = message
        self.reason = reason


def refusal(
    status: int, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> bytes:
    """Formats a complete HTTP response with a JSON error and `connection: close`."""
    body = error_text(message)
    later = b"retry-after: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else b""
    return b"".join(
        [
            STATUS_LINE[status],
            *[b"%s: %s\r\n" % header for header in headers or []],
            later,
            b"content-type: application/json\r\n",
            b"content-length: %d\r\n" % len(body),
            b"connection: close\r\n\r\n",
            body,
        ]
    )


def has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns True if a body follows the headers; header names must be lowercase."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def check_framing(version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Rejects ambiguous framing or host headers, to prevent request smuggling.

    Args:
        version: HTTP version, such as 1.1.
        headers: Headers with lowercase names.

    Raises:
        Refused: The Host, Content-Length or Transfer-Encoding headers are missing,
            repeated, contradictory or unsupported.
    """

    def given(name: bytes) -> list[bytes]:
        return [value for found, value in headers if found == name]

    hosts, codings = given(b"host"), given(b"transfer-encoding")
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        raise Refused(
            400, f"There are {len(hosts)} Host headers; expected one", "no_http"
        )
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise Refused(400, "The Host header is no name of a host", "no_http")
    if len(given(b"content-length")) + bool(codings) > 1:
        raise Refused(400, "The body's length is given twice", "no_http")
    if not codings:
        return
    if version == "1.0":
        raise Refused(400, "HTTP/1.0 has no Transfer-Encoding", "no_http")
    if [coding.strip().lower() for coding in codings] != [b"chunked"]:
        raise Refused(
            501, "The Transfer-Encoding is unknown here; expected chunked", "no_http"
        )
