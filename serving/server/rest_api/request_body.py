"""Reads request bodies within limits of size and time."""

import asyncio

from grpc import StatusCode
from starlette.requests import Request

from transbeam.serving.server.base.status import StatusError
from transbeam.serving.server.rest_api.gzip_members import unpack


async def read_body(request: Request, most: int, patience: float) -> bytes:
    """Reads a request's body and decompresses it if it is gzip.

    Args:
        request: A request whose body was not read yet.
        most: Maximum size in bytes, both as sent and decompressed.
        patience: Time in seconds in which the body must arrive.

    Raises:
        StatusError: The body is too large, arrives too late, or cannot be decompressed.
        ClientDisconnect: The client disconnected.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(patience):
            body = await _received(request, most)
    except TimeoutError:
        raise StatusError(
            StatusCode.DEADLINE_EXCEEDED,
            f"the body did not come within {patience:g} s",
            http=408,
            reason="body_seconds",
        ) from None
    match request.headers.get("content-encoding", "identity").lower():
        case "identity":
            return body
        case "gzip":
            unpacked = await asyncio.to_thread(unpack, body, most)
            if unpacked is None:
                raise _too_large(most)
            return unpacked
        case other:
            raise StatusError(
                StatusCode.INVALID_ARGUMENT,
                f"Content-Encoding {other}: expected gzip, or none",
                http=415,
            )


async def _received(request: Request, most: int) -> bytes:
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise _too_large(most)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(most: int) -> StatusError:
    return StatusError(
        StatusCode.INVALID_ARGUMENT,
        f"the body is larger than the {most:,} bytes that this server reads; send "
        "fewer instances at once, or raise --max-body-mb",
        http=413,
        reason="body_bytes",
    )
