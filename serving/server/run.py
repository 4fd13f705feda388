"""The server process: runs the REST and gRPC servers until a signal stops them."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

import grpc

from transbeam.configs.system.daemon_threads import run_in_background
from transbeam.configs.system.memory import freeze_garbage_collection
from transbeam.serving.server.base.periodic import Repeated
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.connections.addresses import (
    Addresses,
    check_socket_path,
    format_address,
    listen,
    taken,
)
from transbeam.serving.server.grpc_api.services import start_rpc
from transbeam.serving.server.http_server.uvicorn_server import HttpServer
from transbeam.serving.server.monitoring.access_log import AccessLog
from transbeam.serving.server.monitoring.metrics import Metrics
from transbeam.serving.server.monitoring.request_ids import (
    IdentifiedApp,
    Over,
    RequestContext,
)
from transbeam.serving.server.openai_api.openai_api import OpenAIApi
from transbeam.serving.server.request_handling.reload_config import WatchedConfigFile
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.request_logging.request_log import RequestLog
from transbeam.serving.server.rest_api.app import rest_app
from transbeam.serving.server.rest_api.extension import RestExtension
from transbeam.serving.server.startup import bring_up, catalog_for

# The interpreter's thread switch interval. A small request passes through several
# threads; at Python's default of 5 ms it would wait that long at each of them for a
# thread that parses or writes a large body. Maximum throughput stays within 3%.
_SWITCH_SECONDS = 0.0005


class _OpenServer(NamedTuple):
    """A listening server: its address, and a function that drains and stops it."""

    address: str
    stop: Callable[[], Awaitable[None]]


class OpenServers(NamedTuple):
    """The listening REST and gRPC servers.

    Attributes:
        addresses: Their addresses.
        begin: Loads the models; before a model is loaded, only health and the model's
            status can be requested.
    """

    addresses: Addresses
    begin: Callable[[], Awaitable[None]]


def run(
    settings: ServerSettings,
    listening: socket.socket,
    opened: Callable[[Addresses], None],
    ready: Callable[[], None],
) -> bool:
    """Serves until SIGTERM or SIGINT, then finishes the requests in progress.

    Args:
        settings: Settings of the server.
        listening: Listening socket of the REST API.
        opened: Called with the addresses once the REST and gRPC servers accept
            connections; readiness can be requested from that time on.
        ready: Called when all models are loaded.

    Returns:
        True if the models were loaded before the stop signal.

    Raises:
        ArtifactError: A model cannot be loaded, or a log cannot be written.
        ConfigError: A model's name or label is invalid, or an address is invalid or in
            use.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)

    async def until_signal() -> bool:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with open_servers(settings, listening) as servers:
            opened(servers.addresses)
            stopped = asyncio.create_task(stop.wait())
            loading = asyncio.ensure_future(servers.begin())
            await asyncio.wait({stopped, loading}, return_when=asyncio.FIRST_COMPLETED)
            if not loading.done():
                loading.cancel()  # the loading thread goes on, but is not awaited
                return False
            loading.result()
            freeze_garbage_collection()
            ready()
            await stopped
            return True

    return asyncio.run(until_signal())


@contextlib.asynccontextmanager
async def serving(settings: ServerSettings) -> AsyncIterator[Addresses]:
    """Loads all models and serves REST and gRPC until the context exits.

    Args:
        settings: See `run`.

    Raises:
        UserError: See `run`.
    """
    with listen(settings.host, settings.rest_port) as listening:
        async with open_servers(settings, listening) as opened:
            await opened.begin()
            yield opened.addresses


@contextlib.asynccontextmanager
async def open_servers(
    settings: ServerSettings, listening: socket.socket
) -> AsyncIterator[OpenServers]:
    """Opens the REST and gRPC servers before any model is loaded.

    The REST and gRPC servers are drained and closed when the context exits.

    Args:
        settings: See `run`.
        listening: Listening socket of the REST API.

    Raises:
        ConfigError: The gRPC address is invalid or in use.
        ArtifactError: A log cannot be written.
    """
    async with contextlib.AsyncExitStack() as stack:

        def close_at_exit(close: Callable[[], object]) -> None:
            stack.push_async_callback(asyncio.to_thread, close)

        metrics = Metrics()
        catalog = catalog_for(settings, metrics)
        close_at_exit(catalog.close)
        metrics.watch(catalog)
        over: Over = _unheard
        if settings.access_log is not None:
            over = access_log = AccessLog(settings.access_log)
            close_at_exit(access_log.close)
        log = None
        own = {model.name: model.log for model in settings.models if model.log}
        if own or settings.log is not None:
            log = RequestLog(own, settings.log, metrics)
            close_at_exit(log.close)
        service = Service(catalog, metrics, settings.limits, log)
        polled = None
        if settings.model_config_file and settings.model_config_file_poll_wait_seconds:
            polled = Repeated(
                WatchedConfigFile(settings.model_config_file, service).poll,
                settings.model_config_file_poll_wait_seconds,
                "model.config",
            )
            close_at_exit(polled.close)

        async def begin() -> None:
            await asyncio.wrap_future(
                run_in_background(partial(bring_up, catalog, settings), "first models")
            )
            catalog.start()
            if polled is not None:
                polled.start()

        extensions = await _open_extensions(settings, service)
        rpc = await _open_rpc(service, settings, over)
        stack.push_async_callback(rpc.stop)
        rest = await _open_rest(service, settings, listening, over, extensions)
        stack.push_async_callback(rest.stop)
        try:
            yield OpenServers(Addresses(rest.address, rpc.address), begin)
        finally:
            service.draining = True
            # Concurrently, so that neither accepts requests while the other drains.
            await asyncio.gather(rpc.stop(), rest.stop())


async def _nothing_to_stop() -> None:
    """Stops a server that was not opened."""


def _unheard(call: RequestContext) -> None:
    """Discards a call's record; used if there is no access log."""


async def _open_extensions(
    settings: ServerSettings, service: Service
) -> Sequence[RestExtension]:
    openai = OpenAIApi(service, settings.limits)
    if not settings.has_studio:
        return [openai]
    # It brings Keras and all signatures, which a server without it does not need.
    from transbeam.serving.server.studio_api.studio_api import StudioApi

    return [openai, await asyncio.to_thread(StudioApi, settings, service)]


async def _open_rpc(
    service: Service, settings: ServerSettings, over: Over
) -> _OpenServer:
    if settings.port is None:
        return _OpenServer("", _nothing_to_stop)
    if settings.grpc_socket_path is not None:
        check_socket_path(settings.grpc_socket_path)
    credentials = None
    if settings.certificate is not None and settings.key is not None:
        pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
        credentials = grpc.ssl_server_credentials([pair])
    try:
        server, port = await start_rpc(
            service,
            settings,
            format_address(settings.host, settings.port),
            credentials,
            over,
        )
    except OSError as error:
        raise taken(settings.host, settings.port, "--port", error) from None

    return _OpenServer(
        format_address(settings.host, port),
        partial(server.stop, settings.drain_seconds),
    )


async def _open_rest(
    service: Service,
    settings: ServerSettings,
    listening: socket.socket,
    over: Over,
    extensions: Sequence[RestExtension],
) -> _OpenServer:
    port = listening.getsockname()[1]
    app = rest_app(
        service,
        settings.limits,
        settings.tokens,
        cors=settings.cors,
        extensions=extensions,
    )
    server = HttpServer(IdentifiedApp(app, over), settings, service.metrics.refused)
    service.metrics.connections.set_function(server.connections)
    running = asyncio.create_task(server.serve_until_exit(listening))
    scheme = "https" if settings.certificate else "http"

    async def stop() -> None:
        server.should_exit = True
        await running

    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.001)
    except BaseException:  # the start was canceled
        await stop()
        raise
    return _OpenServer(f"{scheme}://{format_address(settings.host, port)}", stop)
