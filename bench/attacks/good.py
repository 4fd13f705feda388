"""Those whom a server is for: short questions at a rate, and short streams."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from transbeam.serving.client.connect import connect
from transbeam.serving.client.interface import RemoteClient
from transbeam.serving.loadtest.load_loops import Sample, open_loop

TEXT = "The name of the list is in the file."
STREAMS = 10  # questions to one stream


@dataclass(frozen=True)
class Good:
    """Outcomes of good requests.

    Attributes:
        samples: Of questions, and of streams.
    """

    samples: list[Sample]

    @property
    def asked(self) -> int:
        return len(self.samples)

    @property
    def lost(self) -> int:
        return sum(bool(sample.error) for sample in self.samples)

    def percentile(self, share: float) -> float:
        """Milliseconds that so many percent of them took at most."""
        return 1e3 * float(np.percentile([s.seconds for s in self.samples], share))


class GoodClients:
    """Clients who ask at a rate, as an open loop; nobody asks a second time.

    A client that is free asks next, so that connections are kept and what a client
    reads of a model before its first question is read once: in each stretch of time,
    short or long, the same is measured.

    Args:
        rest: `HOST:PORT` of the server.
        rate: Requests a second.
    """

    def __init__(self, rest: str, rate: float):
        self._rest = rest
        self._rate = rate
        self._free: dict[str, queue.LifoQueue[RemoteClient]] = {
            model: queue.LifoQueue() for model in ("reader", "writer")
        }

    def ask(self, seconds: float) -> Good:
        """Asks for so long."""
        return Good(open_loop(self._ask, self._rate, seconds))

    def _ask(self, number: int) -> None:
        if number % STREAMS:
            with self._client("reader") as client:
                client.ask("serving_default", {"text": [TEXT]})
        else:
            with self._client("writer") as client:
                list(client.stream({"text": "The", "max_new_tokens": 8}))

    @contextmanager
    def _client(self, model: str) -> Iterator[RemoteClient]:
        try:
            client = self._free[model].get_nowait()
        except queue.Empty:
            client = connect(f"http://{self._rest}", model, timeout=60, retry=False)
        yield client
        self._free[model].put(client)
