"""The clients of a soak, and what became of their requests."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from bench.soak.questions import Answer, Ask

TOLERANCE = 1e-4  # a batch of another size rounds in other places


@dataclass
class Tally:
    """Outcomes of requests.

    Attributes:
        asked: By kind.
        wrong: Answers that are not what the same question got first, by kind.
        errors: That should not be: how many of each kind and message.
    """

    asked: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


class Load:
    """Threads that ask by chance, each one request after another.

    Args:
        kinds: What to ask; each kind is as likely as the others.
        clients: Threads.
        pause: Seconds between two requests of a thread, on average.
    """

    def __init__(self, kinds: Mapping[str, Sequence[Ask]], clients: int, pause: float):
        self.tally = Tally()
        self._kinds = kinds
        self._pause = pause
        self._first: dict[object, Answer] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=[seed]) for seed in range(clients)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, seed: int) -> None:
        chance = Random(seed)
        while not self._stop.wait(chance.uniform(0, 2 * self._pause)):
            kind = chance.choice(list(self._kinds))
            ask = chance.choice(self._kinds[kind])
            try:
                found, error = ask(chance), ""
            except Exception as raised:
                found, error = None, f"{type(raised).__name__}: {raised}"
            with self._lock:
                self.tally.asked[kind] += 1
                if error:
                    self.tally.errors[kind, error] += 1
                if found and not agree(self._first.setdefault(*found), found[1]):
                    self.tally.wrong[kind] += 1


def agree(one: Answer, other: Answer) -> bool:
    """Returns whether two answers to a question are the same.

    What is as wide as the longest of a batch needs is compared where both have it; how
    much of it counts is an output of its own.
    """
    return one.keys() == other.keys() and all(
        _equal(one[name], other[name]) for name in one
    )


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    if one.ndim != other.ndim or one.shape[:1] != other.shape[:1]:
        return False
    common = tuple(map(slice, np.minimum(one.shape, other.shape)))
    one, other = one[common], other[common]
    if one.dtype.kind == "f":
        return np.allclose(one, other, rtol=0, atol=TOLERANCE)
    return np.array_equal(one, other)
