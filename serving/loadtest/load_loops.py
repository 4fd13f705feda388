"""Generates load on a server and measures the latency of each request.

In a closed loop, each of a fixed number of clients sends its next request when the
previous one is answered: this measures throughput, but sends fewer requests while the
server is slow. In an open loop, requests arrive at random times at a given rate,
independent of the server; latency is measured from the time at which a request was due,
so that a stalled server does not reduce the load (Tene, "How NOT to Measure Latency":
coordinated omission).
"""

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from transbeam.serving.client.interface import ServerError

# Sends the n-th request.
SendRequest = Callable[[int], object]

# Maximum number of concurrent requests of an open loop.
_MOST_AT_ONCE = 256


@dataclass(frozen=True)
class Sample:
    """One request.

    Attributes:
        due: Time at which the request was due, in seconds since the start of the loop.
        seconds: Latency in seconds, measured from the time at which the request was
            due.
        error: The gRPC status code of the error; empty if there was none.
    """

    due: float
    seconds: float
    error: str = ""


def closed_loop(send: SendRequest, clients: int, seconds: float) -> list[Sample]:
    """Runs a closed loop: each client sends its next request after a response.

    Args:
        send: Sends a request; called by several threads.
        clients: The number of clients.
        seconds: The duration.

    Returns:
        The requests that were started within `seconds`, in the order of their start.
    """
    found: list[list[Sample]] = [[] for _ in range(clients)]
    ready = threading.Barrier(clients + 1)
    began = 0.0

    def work(client: int) -> None:
        ready.wait()
        number = client
        while (due := time.perf_counter() - began) < seconds:
            found[client].append(_timed(send, number, began, due))
            number += clients

    threads = [threading.Thread(target=work, args=(one,)) for one in range(clients)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    ready.wait()
    for thread in threads:
        thread.join()
    samples = [sample for one in found for sample in one]
    return sorted(samples, key=lambda sample: sample.due)


def open_loop(
    send: SendRequest, rate: float, seconds: float, seed: int = 0
) -> list[Sample]:
    """Runs an open loop: requests arrive as a Poisson process.

    Args:
        send: Sends a request; called by several threads.
        rate: Requests per second, on average.
        seconds: The duration.
        seed: The random seed.

    Returns:
        The requests, in the order of their arrival.
    """
    chance = random.Random(seed)
    waiting: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    found: list[Sample] = []
    began = time.perf_counter()

    def work() -> None:
        while (request := waiting.get()) is not None:
            found.append(_timed(send, request[0], began, request[1]))

    threads = [
        threading.Thread(target=work)
        for _ in range(min(_MOST_AT_ONCE, max(1, round(rate * seconds))))
    ]
    for thread in threads:
        thread.start()
    number, due = 0, chance.expovariate(rate)
    while due < seconds:
        time.sleep(max(0.0, began + due - time.perf_counter()))
        waiting.put((number, due))
        number, due = number + 1, due + chance.expovariate(rate)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return sorted(found, key=lambda sample: sample.due)


def _timed(send: SendRequest, number: int, began: float, due: float) -> Sample:
    try:
        send(number)
        error = ""
    except ServerError as refused:
        error = refused.code
    return Sample(due, time.perf_counter() - began - due, error)
