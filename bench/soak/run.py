"""One soak: the server, its clients, and those who watch it and renew its models."""

import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.soak.load import Load, Tally
from bench.soak.questions import Ask, Questions
from bench.soak.server import TOKEN, Sample, served

SETTLED = 5.0  # minutes after which memory should grow no more
WINDOW = 3.0  # minutes, of which the least is looked at
EVERY = 5.0  # seconds from sample to sample
CALM = 10.0  # seconds from the last request to the last sample


@dataclass(frozen=True)
class Soak:
    """Results of a soak test.

    Attributes:
        samples: Of the process: before the first request, again and again, and when all
            clients have gone.
        tally: Of the requests.
        reloads: Versions that took over.
    """

    samples: list[Sample]
    tally: Tally
    reloads: int

    @property
    def growth(self) -> float:
        """Megabytes an hour after the first minutes.

        By a line through the least of every few minutes: while a version is loaded
        beside the one that answers, there is more in memory for a while.
        """
        begin = min(SETTLED, self.samples[-1].minute / 2)
        windows: dict[int, list[Sample]] = {}
        for sample in self.samples[:-1]:
            if sample.minute >= begin:
                windows.setdefault(int(sample.minute // WINDOW), []).append(sample)
        least = [min(of, key=lambda s: s.megabytes) for of in windows.values()]
        if len(least) < 2:
            return math.nan
        minutes = [sample.minute for sample in least]
        return 60 * float(np.polyfit(minutes, [s.megabytes for s in least], 1)[0])


def soak(
    models: Sequence[Path],
    *,
    minutes: float,
    clients: int = 4,
    pause: float = 0.05,
    reload_seconds: float = 60.0,
) -> Soak:
    """Has a server asked for some time.

    Args:
        models: Folders above version folders; they stay as they are.
        minutes: For how long.
        clients: Threads that ask.
        pause: Seconds between two requests of each, on average.
        reload_seconds: From one new version to the next, of each model in turn.

    Raises:
        TimeoutError: A new version did not take over.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        served(models, Path(folder)) as (server, names),
    ):
        samples = [server.sample()]
        with ExitStack() as stack:
            kinds: dict[str, list[Ask]] = {}
            for name in names:
                questions = Questions(name, server.rest, server.rpc, TOKEN)
                stack.callback(questions.close)
                for kind, ask in questions.kinds():
                    kinds.setdefault(kind, []).append(ask)
            load = stack.enter_context(Load(kinds, clients, pause))
            stack.enter_context(_again(lambda: samples.append(server.sample())))
            end, reloads = time.monotonic() + 60 * minutes, 0
            while (left := end - time.monotonic()) > reload_seconds:
                time.sleep(reload_seconds)
                server.renew(names[reloads % len(names)])
                reloads += 1
            time.sleep(max(left, 0.0))
        time.sleep(CALM)
        samples.append(server.sample())
        return Soak(samples, load.tally, reloads)


@contextmanager
def _again(work: Callable[[], None]) -> Iterator[None]:
    """Does something every few seconds."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(EVERY):
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
