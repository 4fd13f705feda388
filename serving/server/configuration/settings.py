"""Settings of the server."""

from dataclasses import dataclass, field
from pathlib import Path

from transbeam.serving.server.base.auth import AccessTokens
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.models.batching.batch_queue import BatchingParameters
from transbeam.serving.server.models.catalog import LogSettings, ModelSettings


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """All settings of a server.

    Attributes:
        models: Models to serve.
        host: Address to listen on.
        port: gRPC port; 0 for any free port, None for no gRPC.
        rest_port: REST port; 0 for any free port.
        grpc_socket_path: Unix socket for gRPC, in addition to the port.
        batching: Batching parameters.
        limits: Limits on requests.
        connections: Limits on connections.
        drain_seconds: Time for finishing requests in progress when the server is
            stopped.
        poll_seconds: Interval at which model folders are polled for new versions.
        model_config_file: The `model.config` file that lists the models; it is polled
            for changes.
        model_config_file_poll_wait_seconds: Interval at which `model.config` is read
            again; 0 to read it only once.
        allow_version_labels_for_unavailable_models: True if a new label may be assigned
            to a version that is not available yet.
        enable_per_model_batching_parameters: True if each version folder has its own
            batching parameters.
        tokens: Accepted bearer tokens and their rights.
        reload_roots: Folders from which clients may load models by a reload request; if
            empty, clients may not load models.
        certificate: PEM file of the certificate; if it and `key` are given, both APIs
            use TLS.
        key: PEM file.
        cors: True to allow cross-origin requests.
        access_log: Access log file, with one line for each request, without the
            request's texts.
        log: Request log of models without a logging configuration of their own.
        has_studio: Whether the server has the studio's page.
        studio_runs: Folders of the studio's runs; if empty, all trained runs below
            `runs/`.
        studio_loads: Whether the studio loads the exports of its runs when they are
            needed; for a server without `models`.
    """

    models: tuple[ModelSettings, ...]
    host: str = "127.0.0.1"
    port: int | None = 8500
    rest_port: int = 8501
    grpc_socket_path: Path | None = None
    batching: BatchingParameters = field(default_factory=BatchingParameters)
    limits: Limits = field(default_factory=Limits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    drain_seconds: float = 30.0
    poll_seconds: float = 1.0
    model_config_file: Path | None = None
    model_config_file_poll_wait_seconds: float = 0.0
    allow_version_labels_for_unavailable_models: bool = False
    enable_per_model_batching_parameters: bool = False
    tokens: AccessTokens = field(default_factory=AccessTokens)
    reload_roots: tuple[Path, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    cors: bool = False
    access_log: Path | None = None
    log: LogSettings | None = None
    has_studio: bool = False
    studio_runs: tuple[Path, ...] = ()
    studio_loads: bool = False
