"""Those whom a server is for: short questions at a rate, and short streams."""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.client import connect
from serving.loadtest.load import Sample, open_loop

TEXT = "The name of the list is in the file."
STREAMS = 10  # questions to one stream


@dataclass(frozen=True)
class Good:
    """What became of good requests.

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


def ask_well(rest: str, rate: float, seconds: float) -> Good:
    """Asks at a rate, as an open loop; nobody asks a second time.

    Args:
        rest: `HOST:PORT` of the server.
        rate: Requests a second.
        seconds: For how long.
    """
    own = threading.local()

    def client(model: str) -> Any:
        if not hasattr(own, model):
            made = connect(f"http://{rest}", model, timeout=60, retry=False)
            setattr(own, model, made)
        return getattr(own, model)

    def ask(number: int) -> None:
        if number % STREAMS:
            client("reader").ask("serving_default", {"text": [TEXT]})
        else:
            list(client("writer").stream({"text": "The", "max_new_tokens": 8}))

    return Good(open_loop(ask, rate, seconds))
