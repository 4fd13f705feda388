"""The exported model behind a server: asked as its clients will ask it."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from configs.errors import ArtifactError
from serving.client import Client, connect
from serving.client.interface import ServerError
from serving.forms import AskTexts, Texts
from serving.server.background import in_background
from serving.server.models.catalog import ModelSettings
from serving.server.models.versions import Policy
from serving.server.run import Addresses
from serving.server.settings import Limits, Settings

# The stock server, if this machine has one.
STOCK_SERVER = "TENSORFLOW_MODEL_SERVER"

_NAME = "model"
_SECONDS = 600.0  # for an answer: all texts are asked about at once
_PATIENCE = 120.0  # for a server to become ready


@contextmanager
def our_server(saved_model: Path) -> Iterator[dict[str, AskTexts]]:
    """A SavedModel behind `transbeam serve`.

    Args:
        saved_model: The version folder.

    Yields:
        How to ask it, over REST and over gRPC.

    Raises:
        ArtifactError: It cannot be loaded, or fails a request of its warm-up.
    """
    settings = Settings(
        models=(_one_version(saved_model),),
        port=0,
        rest_port=0,
        limits=Limits(answer_seconds=_SECONDS, body_bytes=2**30),
    )
    with in_background(settings) as addresses, _asked(addresses) as asks:
        yield {f"our server, {door}": ask for door, ask in asks.items()}


@contextmanager
def stock_server(saved_model: Path) -> Iterator[dict[str, AskTexts]]:
    """The same behind TF Serving's own binary, where `STOCK_SERVER` names one.

    Args:
        saved_model: The version folder; the folder above holds no other.

    Yields:
        How to ask it; nothing if there is no binary.

    Raises:
        ArtifactError: It ends, or does not become ready.
    """
    binary = os.environ.get(STOCK_SERVER)
    if not binary:
        yield {}
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
    with tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(command, stdout=told, stderr=told)
        except OSError as error:
            message = f"{STOCK_SERVER}={binary}: cannot be run: {error}"
            raise ArtifactError(message) from None
        try:
            _wait_for(process, addresses)
            with _asked(addresses) as asks:
                yield {f"TF Serving, {door}": ask for door, ask in asks.items()}
        finally:
            process.kill()
            process.wait()


def _one_version(saved_model: Path) -> ModelSettings:
    only = Policy(specific=frozenset({int(saved_model.name)}))
    return ModelSettings(_NAME, saved_model.parent, only)


@contextmanager
def _asked(addresses: Addresses) -> Iterator[dict[str, AskTexts]]:
    with (
        connect(addresses.rest, _NAME, timeout=_SECONDS) as rest,
        connect(f"grpc://{addresses.grpc}", _NAME, timeout=_SECONDS) as rpc,
    ):
        yield {"REST": _as_texts(rest), "gRPC": _as_texts(rpc)}


def _as_texts(client: Client) -> AskTexts:
    def ask(signature: str, texts: Texts) -> Mapping[str, np.ndarray]:
        return client.ask(signature, {name: list(of) for name, of in texts.items()})

    return ask


def _wait_for(process: subprocess.Popen[bytes], addresses: Addresses) -> None:
    """Asks until it answers."""
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
