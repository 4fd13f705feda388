"""Requests of a soak test: good ones, bad ones, and those of clients that leave."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import urllib3

from transbeam.serving.base.stream_events import FinalEvent
from transbeam.serving.client.connect import connect
from transbeam.serving.client.interface import RemoteClient

# A mask in each, so that no neighbour in a batch adds a column to an answer.
TEXTS = (
    "Returns a [MASK].",
    "The [MASK] of the list, or None if it is empty; raises an error otherwise.",
    "No café, 漢字 [MASK] and 👩‍👩‍👧‍👦!",
    "[MASK]",
    "a\x00b \u202e [MASK] \ufeff",
    "[MASK] " + "value " * 400,
)
MANY = 80  # rows that no batch holds
NEW = 12  # tokens
WISHES: Mapping[str, Any] = {
    "max_new_tokens": NEW,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "seed": 0,
}
BAD = (
    ("predict", {"inputs": {"zz": ["a"]}}),
    ("predict", {"instances": [[1.5, [2]]]}),
    ("predict", {"instances": ["a"], "signature_name": "zz"}),
    ("predict", '{"instances": ['),
    ("predict", "[" * 1000),
    ("regress", {"examples": [{"text": "a"}]}),
    ("stream", {"text": 5}),
)

Answer = Mapping[str, np.ndarray]
# A question that should always get the same answer, with an answer; or neither.
Found = tuple[tuple[object, ...], Answer] | None
Ask = Callable[[Random], Found]


@dataclass
class Questions:
    """The requests for one model.

    Attributes:
        model: Its name.
        rest: Where the server listens.
        rpc: The same for gRPC.
        token: That the server asks for.
    """

    model: str
    rest: str
    rpc: str
    token: str
    clients: dict[str, RemoteClient] = field(init=False)

    def __post_init__(self) -> None:
        doors = {"REST": self.rest, "gRPC": f"grpc://{self.rpc}"}
        self.clients = {
            door: connect(
                address, self.model, token=self.token, timeout=60, retry=False
            )
            for door, address in doors.items()
        }
        self._pool = urllib3.PoolManager(maxsize=8, retries=False, timeout=60)
        self._signatures = self.clients["REST"].signatures()
        default = self._signatures["serving_default"].inputs
        self._texts = [name for name, dtype in default.items() if dtype == "DT_STRING"]

    def kinds(self) -> Iterator[tuple[str, Ask]]:
        """Kinds of requests, and what asks one; some have several."""
        for door, client in self.clients.items():
            yield f"predict, {door}", self._asking(client, "serving_default")
            yield "tokenize", self._asking(client, "tokenize")
            yield "cut up", self._asking(client, "serving_default", MANY)
            if "generate" in self._signatures:
                yield "generate", self._asking(client, "generate")
            if "stream_begin" in self._signatures:
                yield f"stream, {door}", lambda chance, c=client: self.stream(c, chance)
                yield (
                    "left amid a stream",
                    lambda chance, c=client: self.leave(c, chance),
                )
        if "classify" in self._signatures:
            yield "classify", self.classify
        yield "refused", self.refused
        yield "left before the answer", self.hang_up

    def close(self) -> None:
        """Hangs up."""
        self._pool.clear()
        for client in self.clients.values():
            client.close()

    def _asking(self, client: RemoteClient, signature: str, rows: int = 1) -> Ask:
        def ask(chance: Random) -> Found:
            place = chance.randrange(len(TEXTS))
            inputs: dict[str, Any] = columns(self._texts, place, rows)
            if signature == "generate":
                inputs |= {name: [value] * rows for name, value in WISHES.items()}
                inputs["stop"] = [""] * rows
            question = self.model, signature, place, rows
            return question, client.ask(signature, inputs)

        return ask

    def classify(self, chance: Random) -> Found:
        place = chance.randrange(len(TEXTS))
        example = {n: rows[0] for n, rows in columns(self._texts, place).items()}
        body = {"signature_name": "classify", "examples": [example]}
        status, told = self._post("classify", body)
        require(status == 200, told)
        [pairs] = json.loads(told)["results"]
        answer = {label: np.array(score) for label, score in pairs}
        return (self.model, "classify", place), answer

    def stream(self, client: RemoteClient, chance: Random) -> Found:
        place = chance.randrange(len(TEXTS))
        *parts, whole = client.stream(self._wishes(place))
        require(isinstance(whole, FinalEvent), whole)
        require(0 < len(parts) <= NEW, len(parts))
        answer = {name: np.array(value) for name, value in vars(whole).items()}
        return (self.model, "stream", place), answer

    def leave(self, client: RemoteClient, chance: Random) -> Found:
        parts: Any = client.stream(self._wishes(chance.randrange(len(TEXTS))))
        with closing(parts):
            list(islice(parts, chance.randrange(1, NEW // 2)))
        return None

    def refused(self, chance: Random) -> Found:
        """A bad request, or one without the token."""
        method, body = chance.choice(BAD)
        status, told = self._post(method, body)
        require(status == 400, f"{method} {body}: {status} {told!r}")
        status, told = self._post("predict", {"instances": ["a"]}, token="zz")
        require(status == 401, f"another token: {status} {told!r}")
        return None

    def hang_up(self, chance: Random) -> Found:
        body = json.dumps({"inputs": columns(self._texts, 0, chance.choice([1, MANY]))})
        connection = http.client.HTTPConnection(self.rest.removeprefix("http://"))
        path = f"/v1/models/{self.model}:predict"
        connection.request("POST", path, body, self._headers(self.token))
        connection.close()
        return None

    def _wishes(self, place: int) -> dict[str, Any]:
        given = {n: rows[0] for n, rows in columns(self._texts, place).items()}
        return {**given, "max_new_tokens": NEW}

    def _headers(self, token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    def _post(
        self, method: str, body: object, token: str | None = None
    ) -> tuple[int, bytes]:
        text = body if isinstance(body, str) else json.dumps(body)
        url = f"{self.rest}/v1/models/{self.model}:{method}"
        headers = self._headers(token or self.token)
        response = self._pool.request("POST", url, body=text, headers=headers)
        return response.status, response.data


def columns(names: Sequence[str], place: int, rows: int = 1) -> dict[str, list[str]]:
    """Texts for each input, beginning at another one for each."""
    return {
        name: [TEXTS[(place + shift + row) % len(TEXTS)] for row in range(rows)]
        for shift, name in enumerate(names)
    }


def require(fine: bool, found: object) -> None:
    """Ends a request that went otherwise than it should."""
    if not fine:
        raise AssertionError(f"found {found!r}")
