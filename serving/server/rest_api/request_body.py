"""Reads request bodies within limits, and detects client disconnects."""

import asyncio
import zlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from grpc import StatusCode
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from transbeam.serving.server.base.status import StatusError, invalid
from transbeam.serving.server.configuration.limits import Limits

_GZIP = 16 + zlib.MAX_WBITS
# zlib copies the unused input after each member: feed pieces, not the whole body.
_PIECE = 2**16
_MOST_MEMBERS = 1000

_Result = TypeVar("_Result")


async def read_body(request: Request, limits: Limits) -> bytes:
    """Reads a request's body and decompresses it if it is gzip.

    Args:
        request: A request whose body was not read yet.
        limits: Limits of the body's size in bytes, compressed and decompressed, and of
            the time in which the body must arrive.

    Raises:
        StatusError: The body is too large, arrives too late, or cannot be decompressed,
            or the client disconnected.
    """
    most, patience = limits.body_bytes, limits.body_seconds
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise _too_large(most)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(patience):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                chunks.append(chunk)
    except ClientDisconnect:
        raise _gone() from None
    except TimeoutError:
        raise StatusError(
            StatusCode.DEADLINE_EXCEEDED,
            f"the body did not come within {patience:g} s",
            http=408,
            reason="body_seconds",
        ) from None
    body = b"".join(chunks)
    match request.headers.get("content-encoding", "identity").lower():
        case "identity":
            return body
        case "gzip":
            return await asyncio.to_thread(unpack, body, most)
        case other:
            raise StatusError(
                StatusCode.INVALID_ARGUMENT,
                f"Content-Encoding {other}: expected gzip, or none",
                http=415,
            )


def unpack(body: bytes, most: int) -> bytes:
    """Decompresses a gzip body, which may consist of several members.

    https://www.rfc-editor.org/rfc/rfc1952#section-2.2. Zero padding after the last
    member is ignored, as `gzip` does.

    Args:
        body: One or more gzip members.
        most: Maximum decompressed size in bytes of all members together.

    Returns:
        The concatenated contents.

    Raises:
        StatusError: The contents exceed `most` bytes, or the body is not gzip, is
            truncated, or has too many members.

    Example:
    >>> import gzip
    >>> unpack(gzip.compress(b"ab") + gzip.compress(b"c"), most=3)
    b'abc'
    """
    parts: list[bytes] = []
    offset = size = members = 0
    decoder: Any = None
    while offset < len(body):
        if decoder is None:
            if members and body[offset] == 0:
                if body[offset:].strip(b"\0"):
                    raise invalid("the body goes on behind its gzip")
                break
            members += 1
            if members > _MOST_MEMBERS:
                raise invalid(f"the body has more than {_MOST_MEMBERS:,} gzip members")
            decoder = zlib.decompressobj(_GZIP)
        piece = body[offset : offset + _PIECE]
        try:
            parts.append(decoder.decompress(piece, most - size + 1))
        except zlib.error as error:
            raise invalid(
                f"the body is not gzip, in its member {members}: {error}"
            ) from None
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        offset += len(piece) - len(decoder.unused_data)
        if decoder.eof:
            decoder = None
    if decoder is not None or not members:
        raise invalid("the body is cut off: its gzip has no end")
    return b"".join(parts)


def _too_large(most: int) -> StatusError:
    return StatusError(
        StatusCode.INVALID_ARGUMENT,
        f"the body is larger than the {most:,} bytes that this server reads; send "
        "fewer instances at once, or raise --max-body-mb",
        http=413,
        reason="body_bytes",
    )


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Awaits a result; cancels the work if the client disconnects.

    Args:
        receive: ASGI `receive`; the body was already read.
        work: Computes the result.

    Raises:
        StatusError: The client disconnected.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _gone()
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            # Waits until canceled, so that the metrics count the request as canceled.
            await asyncio.wait({working})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _gone() -> StatusError:
    return StatusError(StatusCode.CANCELLED, "The client went away")
