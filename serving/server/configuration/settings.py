"""What a server is told when it is started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from transbeam.serving.server.base.auth import AccessTokens
from transbeam.serving.server.configuration.stop_string_limits import StopLimits
from transbeam.serving.server.connections.connection_limits import ConnectionLimits
from transbeam.serving.server.models.batching.parameters import BatchingParameters
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.models.logging_config import LogSettings


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may ask of the server.

    Attributes:
        body_bytes: Of a request, unpacked.
        text_bytes: Of all texts of a request.
        rows: Of a request.
        body_seconds: That a body may take to come.
        answer_seconds: That an answer may take.
        model_seconds: The same, of models by their names.
        drain_seconds: That requests may still take when the server is told to stop.
        stops: Of the strings that end a text.
    """

    body_bytes: int = 16 * 2**20
    text_bytes: int = 2**21
    rows: int = 2**14
    body_seconds: float = 30.0
    answer_seconds: float = 30.0
    model_seconds: Mapping[str, float] = field(default_factory=dict)
    drain_seconds: float = 30.0
    stops: StopLimits = field(default_factory=StopLimits)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """All of a server.

    Attributes:
        models: What it serves.
        host: The address it listens on.
        port: For gRPC; 0 for any that is free.
        rest_port: For REST; 0 for any that is free.
        grpc_socket_path: A Unix socket for gRPC, beside the port.
        batching: How requests are put together.
        limits: What a client may ask.
        connections: How clients may ask it.
        poll_seconds: Between two looks for new versions.
        model_config_file: Where the models are from, if it is to be read again.
        model_config_file_poll_wait_seconds: Until then; it is not if 0.
        allow_version_labels_for_unavailable_models: Whether a label that is new may be
            for a version that does not answer yet.
        enable_per_model_batching_parameters: Whether `batching` is a version's own
            affair.
        tokens: That clients must show, and what each is for.
        reload_roots: Folders that a client may have models loaded from; without any it
            may not.
        certificate: PEM file; with `key`, both doors speak TLS.
        key: PEM file.
        cors: Whether pages of other origins may ask.
        access_log: A file that gets a line for each request, without its texts.
        log: Where requests are written down, of models that do not say it themselves.
    """

    models: tuple[ModelSettings, ...]
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int = 8501
    grpc_socket_path: Path | None = None
    batching: BatchingParameters = field(default_factory=BatchingParameters)
    limits: Limits = field(default_factory=Limits)
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
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
