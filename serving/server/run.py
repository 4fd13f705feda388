"""The server process: runs the REST and gRPC servers until a signal stops them."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import NamedTuple

import grpc

from transbeam.configs.system.daemon_threads import begin_aside
from transbeam.configs.system.memory import settle
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
from transbeam.serving.server.request_handling.reload_config import WatchedConfigFile
from transbeam.serving.server.request_handling.service import Service
from transbeam.serving.server.request_logging.request_log import RequestLog
from transbeam.serving.server.rest_api.app import rest_app
from transbeam.serving.server.startup import bring_up, catalog_for

# The interpreter's thread switch interval. A small request passes through several
# threads; at Python's default of 5 ms it would wait that long at each of them for a
# thread that parses or writes a large body. Maximum throughput stays within 3%.
_SWITCH_SECONDS = 0.0005


class _Door(NamedTuple):
    """A listening server: its address, and a function that drains and closes it."""

    address: str
    shut: Callable[[], Awaitable[None]]


class Doors(NamedTuple):
    """The listening REST and gRPC servers.

    Attributes:
        addresses: Their addresses.
        begin: Loads the models; until then only health and status can be requested.
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
        opened: Called with the addresses once both servers listen; from then on
            readiness can be requested.
        ready: Called when all models are loaded.

    Returns:
        True if the models were loaded before the stop signal.

    Raises:
        ArtifactError: A model cannot be loaded, or a log cannot be written.
        ConfigError: A name or an address is invalid or in use.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)

    async def until_told() -> bool:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with doors_open(settings, listening) as doors:
            opened(doors.addresses)
            stopped = asyncio.create_task(stop.wait())
            begun = asyncio.ensure_future(doors.begin())
            await asyncio.wait({stopped, begun}, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                begun.cancel()  # the loading thread goes on, but is not awaited
                return False
            begun.result()
            settle()
            ready()
            await stopped
            return True

    return asyncio.run(until_told())


@contextlib.asynccontextmanager
async def serving(settings: ServerSettings) -> AsyncIterator[Addresses]:
    """Loads all models and serves REST and gRPC until the context exits.

    Args:
        settings: See `run`.

    Raises:
        UserError: See `run`.
    """
    with listen(settings.host, settings.rest_port) as listening:
        async with doors_open(settings, listening) as opened:
            await opened.begin()
            yield opened.addresses


@contextlib.asynccontextmanager
async def doors_open(
    settings: ServerSettings, listening: socket.socket
) -> AsyncIterator[Doors]:
    """Opens the REST and gRPC servers before any model is loaded.

    Both are drained and closed when the context exits.

    Args:
        settings: See `run`.
        listening: Listening socket of the REST API.

    Raises:
        ConfigError: The gRPC address is invalid or in use.
        ArtifactError: A log cannot be written.
    """
    metrics = Metrics()

    catalog = catalog_for(settings, metrics)
    metrics.watch(catalog)
    log = _request_log(settings, metrics)
    service = Service(catalog, metrics, settings.limits, log)
    followed = _followed(settings, service)
    access = None if settings.access_log is None else AccessLog(settings.access_log)

    async def begin() -> None:
        loading = begin_aside(partial(bring_up, catalog, settings), "first models")
        await asyncio.wrap_future(loading)
        catalog.start()
        if followed is not None:
            followed.start()

    try:
        async with (
            _rpc_open(service, settings, access or _unheard) as rpc,
            _rest_open(service, settings, listening, access or _unheard) as rest,
        ):
            try:
                yield Doors(Addresses(rest.address, rpc.address), begin)
            finally:
                service.draining = True
                # Concurrently, so that neither accepts requests while the other drains.
                await asyncio.gather(rpc.shut(), rest.shut())
    finally:
        if followed is not None:
            await asyncio.to_thread(followed.close)
        if log is not None:
            await asyncio.to_thread(log.close)
        if access is not None:
            await asyncio.to_thread(access.close)
        await asyncio.to_thread(catalog.close)


def _unheard(call: RequestContext) -> None:
    """Discards the call; used where there is no access log."""


def _request_log(settings: ServerSettings, metrics: Metrics) -> RequestLog | None:
    wanted = {model.name: model.log for model in settings.models if model.log}
    if not wanted and settings.log is None:
        return None
    return RequestLog(wanted, settings.log, metrics)


def _followed(settings: ServerSettings, service: Service) -> Repeated | None:
    file = settings.model_config_file
    seconds = settings.model_config_file_poll_wait_seconds
    if not (file and seconds):
        return None
    return Repeated(WatchedConfigFile(file, service).look, seconds, "model.config")


@contextlib.asynccontextmanager
async def _rpc_open(
    service: Service, settings: ServerSettings, over: Over
) -> AsyncIterator[_Door]:
    if settings.grpc_socket_path is not None:
        check_socket_path(settings.grpc_socket_path)
    try:
        server, port = await start_rpc(
            service,
            settings,
            format_address(settings.host, settings.port),
            _credentials(settings),
            over,
        )
    except OSError as error:
        raise taken(settings.host, settings.port, "--port", error) from None

    async def shut() -> None:
        await server.stop(settings.drain_seconds)

    try:
        yield _Door(format_address(settings.host, port), shut)
    finally:
        await shut()


@contextlib.asynccontextmanager
async def _rest_open(
    service: Service, settings: ServerSettings, listening: socket.socket, over: Over
) -> AsyncIterator[_Door]:
    port = listening.getsockname()[1]
    app = rest_app(service, settings.limits, settings.tokens, cors=settings.cors)
    metrics = service.metrics
    server = HttpServer(IdentifiedApp(app, over), settings, metrics.refused)
    metrics.connections.set_function(server.connections)
    running = asyncio.create_task(server.serve_until_told(listening))
    scheme = "https" if settings.certificate else "http"

    async def shut() -> None:
        server.should_exit = True
        await running

    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.001)
        yield _Door(f"{scheme}://{format_address(settings.host, port)}", shut)
    finally:
        await shut()


def _credentials(settings: ServerSettings) -> grpc.ServerCredentials | None:
    if settings.certificate is None or settings.key is None:
        return None
    pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair])
