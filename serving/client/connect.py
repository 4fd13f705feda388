"""Connects to a model server, ours or TF Serving's, over REST or gRPC.

Example:
    >>> from transbeam.serving.client.connect import connect  # doctest: +SKIP
    >>> with connect("http://localhost:8501", "demo") as client:  # doctest: +SKIP
    ...     client.ask("serving_default", {"text": ["It is a [MASK]."]})["fills"]
"""

from pathlib import Path

from transbeam.configs.base.errors import ConfigError
from transbeam.serving.base.credentials import check_pem
from transbeam.serving.client.interface import (
    Connection,
    RemoteClient,
)


def connect(
    address: str,
    model: str,
    *,
    version: int | None = None,
    token: str | None = None,
    certificate: Path | None = None,
    timeout: float = 30.0,
    retry: bool = True,
) -> RemoteClient:
    """Returns a client for one model of a server.

    Args:
        address: `http://HOST:PORT` or `https://…` for REST, `grpc://HOST:PORT` or
            `grpcs://…` for gRPC; `https` and `grpcs` use TLS.
        model: The model's name on the server.
        version: The version of the model; the latest version if left out.
        token: The access token, if the server requires one.
        certificate: PEM file of the issuer of the server's certificate, if this machine
            does not trust it by default.
        timeout: Maximum number of seconds until a response, retries included.
        retry: Whether to retry when the server is busy or unavailable.

    Raises:
        ConfigError: `address` is not a URL with the scheme `http`, `https`, `grpc` or
            `grpcs`, or the PEM file contains no certificate.
    """
    if certificate is not None:
        check_pem(certificate, "CERTIFICATE")
    connection = Connection(
        address=address,
        model=model,
        version=version,
        token=token,
        certificate=certificate,
        timeout=timeout,
        retry=retry,
    )
    scheme, _, target = address.partition("://")
    if scheme in ("http", "https") and target:
        from transbeam.serving.client.rest_client import RestClient

        return RestClient(connection)
    if scheme in ("grpc", "grpcs") and target:
        from transbeam.serving.client.grpc_client import RpcClient

        return RpcClient(connection)
    raise ConfigError(
        f"{address!r} is not the address of a server; expected http://HOST:PORT for "
        "REST, or grpc://HOST:PORT"
    )
