"""Asks a model server, ours or TF Serving's, over REST or gRPC.

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
    """A client of one model.

    Args:
        address: `http://HOST:PORT` or `https://…` for REST, `grpc://HOST:PORT` or
            `grpcs://…` for gRPC; the one with an s speaks TLS.
        model: Its name at the server.
        version: The latest if left out.
        token: That the server asks for.
        certificate: PEM file of who signed the server's certificate, if it is none that
            this machine trusts.
        timeout: Seconds that an answer may take, attempts and all.
        retry: Whether to ask again where a server is busy or not there.

    Raises:
        ConfigError: The address is none of these, or the file has no certificate.
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
    scheme, _, place = address.partition("://")
    if scheme in ("http", "https") and place:
        from transbeam.serving.client.rest_client import RestClient

        return RestClient(connection)
    if scheme in ("grpc", "grpcs") and place:
        from transbeam.serving.client.grpc_client import RpcClient

        return RpcClient(connection)
    raise ConfigError(
        f"{address!r} is not the address of a server; expected http://HOST:PORT for "
        "REST, or grpc://HOST:PORT"
    )
