"""The client interface, common to REST, gRPC and local SavedModels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from transbeam.configs.base.errors import UserError
from transbeam.serving.base.stream_events import FinalEvent, StreamPart

Inputs = Mapping[str, Sequence[str] | Sequence[bytes] | np.ndarray]

# TensorFlow's names of the numeric dtypes, as signatures use them.
NUMBERS: Mapping[str, type[np.generic]] = {
    "DT_FLOAT": np.float32,
    "DT_DOUBLE": np.float64,
    "DT_INT8": np.int8,
    "DT_INT16": np.int16,
    "DT_INT32": np.int32,
    "DT_INT64": np.int64,
    "DT_UINT8": np.uint8,
    "DT_UINT32": np.uint32,
    "DT_UINT64": np.uint64,
    "DT_BOOL": np.bool_,
}


class ServerError(UserError):
    """A server is unreachable or rejects a request.

    Attributes:
        code: The gRPC status code, such as `NOT_FOUND`.
        again: Whether a retry may succeed.
    """

    def __init__(self, code: str, message: str, *, again: bool = False):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.again = again


def untrusted(address: str, reason: object) -> ServerError:
    """Returns the error for an untrusted server certificate, which is not retried."""
    return ServerError(
        "UNAVAILABLE",
        f"{address} is not trusted: {reason}. Give the certificate of who signed the "
        "server's, if this machine does not know it (--certificate FILE)",
    )


@dataclass(frozen=True)
class SignatureTypes:
    """The dtypes of a signature's inputs and outputs.

    Attributes:
        inputs: Dtype, such as `DT_STRING`, of each input, by input name.
        outputs: Likewise.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Address and credentials of a model; see `transbeam.serving.client.connect`."""

    address: str
    model: str
    version: int | None = None
    token: str | None = None
    certificate: Path | None = None
    timeout: float = 30.0
    retry: bool = True


class Client(Protocol):
    """Calls one model of a server. Thread-safe."""

    def signatures(self) -> dict[str, SignatureTypes]:
        """Returns the signatures of the model, by name.

        Raises:
            ServerError: The server is unreachable, or has no such model.
        """
        ...

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        """Calls a signature.

        Args:
            signature: Its name.
            inputs: All inputs of the signature, by name.

        Returns:
            One array per output; texts are UTF-8 as `bytes`.

        Raises:
            ServerError: The server is unreachable, or rejects the request.
        """
        ...

    def close(self) -> None:
        """Closes the connections, if there are any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RemoteClient(Client, Protocol):
    """Calls one model of a server that may run on another machine."""

    def stream(self, inputs: Mapping[str, Any]) -> Iterator[StreamPart | FinalEvent]:
        """Generates a text and yields each new part of the text when it arrives.

        Only `transbeam serve` supports streaming, not TF Serving. The request is no
        longer retried after the first part of the text arrived.

        Args:
            inputs: The model's text inputs, such as `text`, and any of
                `max_new_tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`,
                `repetition_penalty`, `no_repeat_ngram_size`, `logit_bias`, such as
                `"11:2.5"`, and `stop`, a list of strings.

        Yields:
            The parts of the text, then a `FinalEvent` with the whole text.

        Raises:
            ServerError: The server is unreachable, or rejects the request.
        """
        ...
