"""What a client can do, whichever way it talks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from transbeam.configs.base.errors import UserError
from transbeam.serving.base.stream_events import StreamPart, Whole

Inputs = Mapping[str, Sequence[str] | Sequence[bytes] | np.ndarray]

# What signatures call the types of numbers.
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
    """A server that does not answer, or refuses.

    Attributes:
        code: gRPC's name for it, such as `NOT_FOUND`.
        again: Whether it may go better another time.
    """

    def __init__(self, code: str, message: str, *, again: bool = False):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.again = again


def untrusted(address: str, reason: object) -> ServerError:
    """A server that does not show who it is, and will not another time."""
    return ServerError(
        "UNAVAILABLE",
        f"{address} is not trusted: {reason}. Give the certificate of who signed the "
        "server's, if this machine does not know it (--certificate FILE)",
    )


@dataclass(frozen=True)
class SignatureTypes:
    """What a signature takes and gives.

    Attributes:
        inputs: Their types, such as `DT_STRING`, by name.
        outputs: The same.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The address of a model; see `transbeam.serving.client.connect`."""

    address: str
    model: str
    version: int | None = None
    token: str | None = None
    certificate: Path | None = None
    timeout: float = 30.0
    retry: bool = True


class Client(Protocol):
    """Asks one model of a server. Several threads may share one."""

    def signatures(self) -> dict[str, SignatureTypes]:
        """What the model can be asked.

        Raises:
            ServerError: The server does not answer, or has no such model.
        """
        ...

    def ask(self, signature: str, inputs: Inputs) -> dict[str, np.ndarray]:
        """Asks a signature.

        Args:
            signature: Its name.
            inputs: All that it takes.

        Returns:
            An array for each output; of texts, UTF-8 as `bytes`.

        Raises:
            ServerError: The server does not answer, or refuses.
        """
        ...

    def close(self) -> None:
        """Hangs up."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class RemoteClient(Client, Protocol):
    """Asks one model of a server that may be elsewhere."""

    def stream(self, wishes: Mapping[str, Any]) -> Iterator[StreamPart | Whole]:
        """Has a text written, and gets it while it is. Of our server only.

        Asked again only as long as nothing has come.

        Args:
            wishes: The model's texts, such as `text`, and any of `max_new_tokens`,
                `temperature`, `top_k`, `top_p`, `min_p`, `seed`, `repetition_penalty`,
                `no_repeat_ngram_size`, `logit_bias`, such as `"11:2.5"`, and `stop`, a
                list of strings.

        Yields:
            The parts, then the whole.

        Raises:
            ServerError: The server does not answer, or refuses.
        """
        ...
