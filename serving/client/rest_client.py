"""A REST client, which does not need TensorFlow."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import numpy as np
import urllib3

from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.client.interface import (
    NUMBERS,
    Connection,
    Inputs,
    RemoteClient,
    ServerError,
    SignatureTypes,
    untrusted,
)
from transbeam.serving.client.retries import with_retries

_CONNECTIONS = 64
_CODES: dict[int, str] = {
    HTTPStatus.BAD_REQUEST: "INVALID_ARGUMENT",
    HTTPStatus.UNAUTHORIZED: "UNAUTHENTICATED",
    HTTPStatus.FORBIDDEN: "PERMISSION_DENIED",
    HTTPStatus.NOT_FOUND: "NOT_FOUND",
    HTTPStatus.TOO_MANY_REQUESTS: "RESOURCE_EXHAUSTED",
    HTTPStatus.NOT_IMPLEMENTED: "UNIMPLEMENTED",
    HTTPStatus.SERVICE_UNAVAILABLE: "UNAVAILABLE",
    HTTPStatus.GATEWAY_TIMEOUT: "DEADLINE_EXCEEDED",
}
_AGAIN = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class RestClient(RemoteClient):
    """A REST client; see `transbeam.serving.client.interface.Client`.

    Args:
        connection: The server's address and credentials.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        address = connection.address.rstrip("/")
        self._model = f"{address}/v1/models/{quote(connection.model, safe='')}"
        if connection.version is not None:
            self._model += f"/versions/{connection.version}"
        token, certificate = connection.token, connection.certificate
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            retries=False,
            ca_certs=None if certificate is None else str(certificate),
        )
        self._known: dict[str, SignatureTypes] | None = None

    def signatures(self) -> dict[str, SignatureTypes]:
        metadata = self._send("GET", f"{self._model}/metadata")["metadata"]
        definitions = metadata["signature_def"]["signature_def"]
        return {
            name: SignatureTypes(_types(of["inputs"]), _types(of["outputs"]))
            for name, of in sorted(definitions.items())
            if not name.startswith("__")
        }

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        if self._known is None:
            self._known = self.signatures()
        body = {
            "signature_name": signature,
            "inputs": {name: _jsonable(values) for name, values in inputs.items()},
        }
        answer = self._send("POST", f"{self._model}:predict", body)["outputs"]
        if signature not in self._known:  # another version is served by now
            self._known = self.signatures()
        types = self._known[signature].outputs
        if len(types) == 1:
            answer = dict.fromkeys(types, answer)
        return {name: _array(answer[name], types[name]) for name in types}

    def stream(self, inputs: Mapping[str, Any]) -> Iterator[StreamPart | FinalEvent]:
        body = _jsonable(dict(inputs))
        response = self._opened("POST", f"{self._model}:stream", body, preload=False)
        try:
            for kind, fields in _events(response):
                if kind == "error":
                    raise ServerError("INTERNAL", fields["error"])
                yield FinalEvent(**fields) if kind == "done" else StreamPart(**fields)
                if kind == "done":
                    return
        except urllib3.exceptions.HTTPError as error:
            raise self._unanswered(error) from None
        finally:
            response.close()
        raise ServerError("UNAVAILABLE", f"{self._model} broke off amid a text")

    def close(self) -> None:
        # `clear` alone drops pools, which close once nothing references them, and an
        # exception may; a TLS server waits half a minute for the client to close.
        pools = self._pool.pools
        for key in pools.keys():  # noqa: SIM118 - it cannot be iterated over
            pools[key].close()
        self._pool.clear()

    def _send(self, method: str, url: str, body: Any = None) -> dict[str, Any]:
        answer = _document(self._opened(method, url, body).data)
        if answer is None:
            raise _refusal(url, HTTPStatus.OK, None)
        return answer

    def _opened(
        self, method: str, url: str, body: Any = None, *, preload: bool = True
    ) -> Any:
        """Sends a request, retries it if needed, and returns the response.

        Args:
            method: The HTTP method.
            url: The address.
            body: The JSON value to send, if any.
            preload: Whether to read the body of the response.

        Raises:
            ServerError: The server is unreachable, or rejects the request.
        """
        text = None if body is None else json.dumps(body).encode()

        def attempt(left: float) -> Any:
            try:
                response = self._pool.request(
                    method,
                    url,
                    body=text,
                    headers=self._headers,
                    timeout=left,
                    preload_content=preload,
                )
                if response.status != HTTPStatus.OK:
                    with closing(response):
                        raise _refusal(url, response.status, _document(response.data))
                return response
            except urllib3.exceptions.HTTPError as error:
                raise self._unanswered(error) from None

        return with_retries(attempt, self._connection)

    def _unanswered(self, error: urllib3.exceptions.HTTPError) -> ServerError:
        if isinstance(error, urllib3.exceptions.SSLError):
            return untrusted(self._connection.address, error)
        late = isinstance(error, urllib3.exceptions.TimeoutError)
        # urllib3 raises a timeout for a refused connection, too.
        if late and not isinstance(error, urllib3.exceptions.NewConnectionError):
            return ServerError(
                "DEADLINE_EXCEEDED", f"{self._model} did not answer in time"
            )
        return ServerError(
            "UNAVAILABLE",
            f"{self._connection.address} does not answer: {error}",
            again=True,
        )


def _document(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _refusal(url: str, status: int, answer: dict[str, Any] | None) -> ServerError:
    reason = (answer or {}).get("error")
    return ServerError(
        _CODES.get(status, "INTERNAL"),
        reason or f"{url} answered with status {status}, and no reason",
        again=status in _AGAIN,
    )


def _events(response: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the type and the JSON data of each server-sent event."""
    kind, rest = "", b""
    # `read1` returns received bytes at once, without waiting for a full buffer.
    while chunk := response.read1():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.decode().partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)
                kind = ""


def _types(tensors: Mapping[str, Any]) -> dict[str, str]:
    return {name: tensor["dtype"] for name, tensor in sorted(tensors.items())}


def _jsonable(values: Any) -> Any:
    """Converts inputs to JSON values; bytes that are not UTF-8 become base64."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, list | tuple):
        return [_jsonable(value) for value in values]
    if isinstance(values, bytes):
        try:
            return values.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(values).decode()}
    return values


def _array(values: Any, dtype: str) -> np.ndarray:
    if dtype != "DT_STRING":
        return np.array(values, NUMBERS[dtype])
    leaves = np.array(values, object)
    return np.array([_bytes(leaf) for leaf in leaves.flat], object).reshape(
        leaves.shape
    )


def _bytes(leaf: Any) -> bytes:
    return base64.b64decode(leaf["b64"]) if isinstance(leaf, dict) else leaf.encode()
