"""Asks a server as many do at once, and takes down how long each had to wait.

A closed loop has so many clients, each of which asks again when it is answered: it
finds what the server can do, but waits politely while the server is slow. An open loop
has requests arrive by chance at a rate, whatever the server does; waiting counts from
the moment a request was due, so that a server that stands still is not asked less
(Tene, "How NOT to Measure Latency": coordinated omission).
"""

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from transbeam.serving.client.interface import ServerError

# Asks the n-th question.
Ask = Callable[[int], object]

# Requests of an open loop that may be under way at once.
_MOST_AT_ONCE = 256


@dataclass(frozen=True)
class Sample:
    """One request.

    Attributes:
        due: Seconds after the beginning at which it was to be asked.
        seconds: Until its answer.
        error: gRPC's name for what went wrong; empty if nothing did.
    """

    due: float
    seconds: float
    error: str = ""


def closed_loop(ask: Ask, clients: int, seconds: float) -> list[Sample]:
    """So many clients, each asking again when it is answered.

    Args:
        ask: Asks a question; called by several threads.
        clients: How many.
        seconds: For how long.

    Returns:
        The requests that were begun in that time, in the order of their beginning.
    """
    found: list[list[Sample]] = [[] for _ in range(clients)]
    ready = threading.Barrier(clients + 1)
    began = 0.0

    def work(client: int) -> None:
        ready.wait()
        number = client
        while (due := time.perf_counter() - began) < seconds:
            found[client].append(_timed(ask, number, began, due))
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


def open_loop(ask: Ask, rate: float, seconds: float, seed: int = 0) -> list[Sample]:
    """Requests that arrive by chance.

    Args:
        ask: Asks a question; called by several threads.
        rate: Requests a second, on average.
        seconds: For how long.
        seed: Of the chance.

    Returns:
        The requests, in the order of their arrival.
    """
    chance = random.Random(seed)
    waiting: queue.SimpleQueue[tuple[int, float] | None] = queue.SimpleQueue()
    found: list[Sample] = []
    began = time.perf_counter()

    def work() -> None:
        while (request := waiting.get()) is not None:
            found.append(_timed(ask, request[0], began, request[1]))

    workers = min(_MOST_AT_ONCE, max(1, round(rate * seconds)))
    threads = [threading.Thread(target=work) for _ in range(workers)]
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


def _timed(ask: Ask, number: int, began: float, due: float) -> Sample:
    try:
        ask(number)
        error = ""
    except ServerError as refused:
        error = refused.code
    return Sample(due, time.perf_counter() - began - due, error)
