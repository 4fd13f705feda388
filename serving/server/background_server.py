"""A server in a background thread, for parity checks and tests."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.connections.addresses import Addresses
from transbeam.serving.server.run import serving


@contextmanager
def in_background(settings: ServerSettings) -> Iterator[Addresses]:
    """Runs a server until the context exits.

    Args:
        settings: As for `transbeam.serving.server.run.run`.

    Yields:
        The addresses that the server listens on.

    Raises:
        UserError: As `transbeam.serving.server.run.run`.
    """
    opened: Future[tuple[Addresses, asyncio.AbstractEventLoop, asyncio.Event]] = (
        Future()
    )

    async def run() -> None:
        stop = asyncio.Event()
        try:
            async with serving(settings) as addresses:
                opened.set_result((addresses, asyncio.get_running_loop(), stop))
                await stop.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="server")
    thread.start()
    try:
        addresses, loop, stop = opened.result()
        try:
            yield addresses
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join()
