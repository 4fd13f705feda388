"""The process: both doors open, until it is told to stop."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import grpc

from configs.errors import ConfigError
from serving.server.access_log import AccessLog
from serving.server.bringing_up import bring_up, catalog_for
from serving.server.calls import Call, IdentifiedApp, Over
from serving.server.http_server import HttpServer
from serving.server.metrics import Metrics
from serving.server.recording.request_log import RequestLog
from serving.server.reloading import FollowedFile
from serving.server.repeating import Repeated
from serving.server.rest import rest_app
from serving.server.rpc import start_rpc
from serving.server.service import Service
from serving.server.settings import Settings
from serving.server.unix_sockets import check_socket_path


@dataclass(frozen=True)
class Addresses:
    """Where the server listens.

    Attributes:
        rest: A URL.
        grpc: `HOST:PORT`.
    """

    rest: str
    grpc: str


class _Door(NamedTuple):
    """Where a door is, and what closes it when those inside have their answers."""

    address: str
    shut: Callable[[], Awaitable[None]]


def run(settings: Settings, announce: Callable[[Addresses], None]) -> None:
    """Serves until SIGTERM or SIGINT; then finishes what has begun.

    Args:
        settings: What, where and how.
        announce: Is told the addresses when everything can be asked.

    Raises:
        ArtifactError: A model cannot be loaded, or a log cannot be written.
        ConfigError: A name or an address cannot be used.
    """

    async def until_told() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with serving(settings) as addresses:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            announce(addresses)
            await stop.wait()

    asyncio.run(until_told())


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Addresses]:
    """Both doors open, for as long as the context lasts; see `run`."""
    metrics = Metrics()

    catalog = catalog_for(settings, metrics)
    metrics.watch(catalog)
    log = _request_log(settings, metrics)
    service = Service(catalog, metrics, settings.limits, log)
    followed = _followed(settings, service)
    access = None if settings.access_log is None else AccessLog(settings.access_log)
    try:
        await asyncio.to_thread(bring_up, catalog, settings)
        catalog.start()
        if followed is not None:
            followed.start()
        async with (
            _rpc_open(service, settings, access or _unheard) as rpc,
            _rest_open(service, settings, access or _unheard) as rest,
        ):
            yield Addresses(rest.address, rpc.address)
            service.draining = True
            # Together: while one finishes what has begun, the other lets nobody in.
            await asyncio.gather(rpc.shut(), rest.shut())
    finally:
        if followed is not None:
            await asyncio.to_thread(followed.close)
        if log is not None:
            await asyncio.to_thread(log.close)
        if access is not None:
            await asyncio.to_thread(access.close)
        await asyncio.to_thread(catalog.close)


def _unheard(call: Call) -> None:
    """For who keeps no access log."""


def _request_log(settings: Settings, metrics: Metrics) -> RequestLog | None:
    wanted = {model.name: model.log for model in settings.models if model.log}
    if not wanted and settings.log is None:
        return None
    return RequestLog(wanted, settings.log, metrics)


def _followed(settings: Settings, service: Service) -> Repeated | None:
    file = settings.model_config_file
    seconds = settings.model_config_file_poll_wait_seconds
    if not (file and seconds):
        return None
    return Repeated(FollowedFile(file, service).look, seconds, "model.config")


@contextlib.asynccontextmanager
async def _rpc_open(
    service: Service, settings: Settings, over: Over
) -> AsyncIterator[_Door]:
    limits = settings.limits
    if settings.grpc_socket_path is not None:
        check_socket_path(settings.grpc_socket_path)
    try:
        server, port = await start_rpc(
            service,
            settings,
            _address(settings.host, settings.port),
            _credentials(settings),
            over,
        )
    except OSError as error:
        raise _taken(settings.host, settings.port, "--port", error) from None

    async def shut() -> None:
        await server.stop(limits.drain_seconds)

    try:
        yield _Door(_address(settings.host, port), shut)
    finally:
        await shut()


@contextlib.asynccontextmanager
async def _rest_open(
    service: Service, settings: Settings, over: Over
) -> AsyncIterator[_Door]:
    listening = _bound(settings.host, settings.rest_port)
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
        yield _Door(f"{scheme}://{_address(settings.host, port)}", shut)
    finally:
        await shut()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends each answer at once (TCP_NODELAY). Without,
    # one in two packets would wait 40 ms for the client to confirm the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise _taken(host, port, "--rest-port", error) from None
    return listening


def _taken(host: str, port: int, flag: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen on {_address(host, port)}: {error.strerror or error}. Give "
        f"another port with {flag}, or 0 for any that is free"
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    if settings.certificate is None or settings.key is None:
        return None
    pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
    return grpc.ssl_server_credentials([pair])
