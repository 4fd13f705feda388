"""Runs an exported model behind a server and calls it as clients do."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.serving.base.stream_events import FinalEvent, StreamPart
from transbeam.serving.client.connect import connect
from transbeam.serving.client.interface import Client, RemoteClient, ServerError
from transbeam.serving.runtimes.saved_model import AskTexts, Texts
from transbeam.serving.server.background_server import in_background
from transbeam.serving.server.configuration.limits import Limits
from transbeam.serving.server.configuration.settings import ServerSettings
from transbeam.serving.server.connections.addresses import Addresses
from transbeam.serving.server.models.catalog import ModelSettings
from transbeam.serving.server.models.versions import Policy
from transbeam.serving.server.streaming.stream_requests import BEGIN

# The environment variable with the path of the stock server, if there is one.
STOCK_SERVER = "TENSORFLOW_MODEL_SERVER"

_NAME = "model"
_SECONDS = 600.0  # for a response: all texts are in one request
_PATIENCE = 120.0  # for a server to become ready


class Served(NamedTuple):
    """Functions that call a model behind a server.

    Attributes:
        asks: Functions that call a given signature on texts, by protocol.
        streams: Functions by protocol that send one streaming request per text and
            return the outputs of `generate`; empty if the server or the model does not
            support streaming.
    """

    asks: dict[str, AskTexts]
    streams: dict[str, AskTexts]


@contextmanager
def our_server(saved_model: Path) -> Iterator[Served]:
    """Serves a SavedModel with `transbeam serve`.

    Args:
        saved_model: The version folder.

    Yields:
        Functions that call the model over REST and over gRPC.

    Raises:
        ArtifactError: The SavedModel cannot be loaded, or a warm-up request fails.
    """
    settings = ServerSettings(
        models=(_one_version(saved_model),),
        port=0,
        rest_port=0,
        limits=Limits(answer_seconds=_SECONDS, body_bytes=2**30),
    )
    with in_background(settings) as addresses, _asked(addresses) as clients:
        asks, streams = {}, {}
        for door, client in clients.items():
            asks[f"our server, {door}"] = _as_texts(client)
            if BEGIN in client.signatures():
                streams[f"our server, streamed over {door}"] = _streamed(client)
        yield Served(asks, streams)


@contextmanager
def stock_server(saved_model: Path) -> Iterator[Served]:
    """Serves a SavedModel with TF Serving's binary, if `STOCK_SERVER` is set.

    Args:
        saved_model: The version folder, which must be the only one in its parent
            folder.

    Yields:
        Functions that call the model; an empty `Served` if `STOCK_SERVER` is not set.

    Raises:
        ArtifactError: The server exits, or does not become ready.
    """
    binary = os.environ.get(STOCK_SERVER)
    if not binary:
        yield Served({}, {})
        return
    ports = _free_port(), _free_port()
    command = [
        binary,
        f"--port={ports[0]}",
        f"--rest_api_port={ports[1]}",
        f"--rest_api_timeout_in_ms={1000 * _SECONDS:.0f}",
        f"--model_name={_NAME}",
        f"--model_base_path={saved_model.parent.resolve()}",
    ]
    addresses = Addresses(f"http://127.0.0.1:{ports[1]}", f"127.0.0.1:{ports[0]}")
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        except OSError as error:
            message = f"{STOCK_SERVER}={binary}: cannot be run: {error}"
            raise ArtifactError(message) from None
        try:
            _wait_for(process, addresses)
            with _asked(addresses) as clients:
                named = clients.items()
                asks = {f"TF Serving, {door}": _as_texts(of) for door, of in named}
                yield Served(asks, {})
        finally:
            process.kill()
            process.wait()


def _one_version(saved_model: Path) -> ModelSettings:
    only = Policy(specific=frozenset({int(saved_model.name)}))
    return ModelSettings(_NAME, saved_model.parent, only)


@contextmanager
def _asked(addresses: Addresses) -> Iterator[dict[str, RemoteClient]]:
    with (
        connect(addresses.rest, _NAME, timeout=_SECONDS) as rest,
        connect(f"grpc://{addresses.grpc}", _NAME, timeout=_SECONDS) as rpc,
    ):
        yield {"REST": rest, "gRPC": rpc}


def _as_texts(client: Client) -> AskTexts:
    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        return client.ask(signature, texts)

    return ask


def _streamed(client: RemoteClient) -> AskTexts:
    """Streams all texts in parallel, so that the server batches them."""

    def ask(_: str, texts: Texts) -> Mapping[str, np.ndarray]:
        rows = [
            dict(zip(texts, row, strict=True))
            for row in zip(*texts.values(), strict=True)
        ]
        with ThreadPoolExecutor(len(rows)) as pool:
            return _in_columns(list(pool.map(lambda row: _written(client, row), rows)))

    return ask


def _written(
    client: RemoteClient, params: dict[str, Any]
) -> tuple[list[int], FinalEvent]:
    """Returns the streamed token ids, and a `FinalEvent` with the joined text parts."""
    *parts, whole = client.stream({**params, "stop": []})
    streamed = [part for part in parts if isinstance(part, StreamPart)]
    if not isinstance(whole, FinalEvent):
        raise ArtifactError(f"a text has no end: {params}")
    together = "".join(part.text for part in streamed)
    return [part.token_id for part in streamed], FinalEvent(
        together, whole.num_tokens, whole.finished, whole.truncated
    )


def _in_columns(
    written: list[tuple[list[int], FinalEvent]],
) -> Mapping[str, np.ndarray]:
    lengths = [len(tokens) for tokens, _ in written]
    ids = np.zeros((len(written), max(lengths)), np.int32)
    for row, (tokens, _) in enumerate(written):
        ids[row, : len(tokens)] = tokens
    texts = [whole.generated_text.encode() for _, whole in written]
    return {
        "token_ids": ids,
        "length": np.array(lengths),
        "finished": np.array([whole.finished for _, whole in written]),
        "generated_text": np.array(texts, object),
    }


def _wait_for(process: subprocess.Popen[bytes], addresses: Addresses) -> None:
    """Waits until the server responds."""
    end = time.monotonic() + _PATIENCE
    with connect(addresses.rest, _NAME, timeout=1.0) as client:
        while process.poll() is None and time.monotonic() < end:
            with suppress(ServerError):
                client.signatures()
                return
            time.sleep(0.1)
    raise ArtifactError(
        f"{STOCK_SERVER}={process.args[0]}: "  # type: ignore[index]
        + (
            f"does not become ready within {_PATIENCE:.0f} s"
            if process.poll() is None
            else f"ended with {process.returncode}"
        )
    )


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
