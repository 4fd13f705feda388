"""Memory and time of the data job as the corpus grows. Linux only.

    python -m bench.data_memory TEXT [--megabytes 8 32 128] [--processes]
        [--pieces N] [--rounds N]

TEXT is a file of paragraphs; where it is too short for a size, it is there several
times, with the number of the copy in front of each. Every 50 ms the resident memory of
the job's process and of all below it is looked at: `together` is the largest sum (pages
that two of them share count twice), `one process` the high-water mark of the largest.
The job has two threads or, with `--processes`, two worker processes besides its own,
and a vocabulary that is learned first, from TEXT as it is.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bench.corpus import (
    PROCESSES,
    THREADS,
    DataJob,
    data_job,
    learned_tokenizer,
    megabytes_of,
    parser_of,
    text_of,
)
from bench.pairs import all_in_turns, heading, row, spread

LOOK_EVERY = 0.05  # seconds


def main() -> None:
    parser = parser_of("bench.data_memory", __doc__, [8, 32, 128])
    parser.add_argument("--processes", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = [text_of(given.text, size, Path(folder)) for size in given.megabytes]
        tokenizer = learned_tokenizer(
            text_of(given.text, None, Path(folder)), "wordpiece", given.pieces
        )
        beam = PROCESSES if given.processes else THREADS
        jobs = [
            Watched(replace(data_job(name, text, "wordpiece", tokenizer), beam=beam))
            for name, text in ((f"job-{n}", text) for n, text in enumerate(texts))
        ]
        seconds = all_in_turns(jobs, given.rounds)
        sizes = [megabytes_of(text) for text in texts]
    way = "2 processes" if given.processes else "2 threads"
    print(heading(f"corpus, {way}", "together", "one process", "time", "MB/s"))
    for size, watched, times in zip(sizes, jobs, seconds, strict=True):
        cells = [
            spread(peaks[1:], ",.0f", " MB")  # without the warm-up
            for peaks in (watched.together, watched.one_process)
        ]
        rate = spread([size / s for s in times], ".1f")
        print(row(f"{size:.3g} MB", *cells, spread(times, ".1f", " s"), rate))


class Watched:
    """A job whose memory is looked at whenever it runs.

    Attributes:
        job: The job.
        together: Megabytes of all its processes at the worst moment, run by run.
        one_process: Megabytes of the largest of them, run by run.
    """

    def __init__(self, job: DataJob) -> None:
        self.job = job
        self.together: list[float] = []
        self.one_process: list[float] = []

    def __call__(self) -> None:
        together = one_process = 0.0
        shutil.rmtree(self.job.run, ignore_errors=True)
        with subprocess.Popen(self.job.command) as process:
            while process.poll() is None:
                memory = [resident(number) for number in family(process.pid)]
                together = max(together, sum(now for now, _ in memory))
                one_process = max(one_process, *(most for _, most in memory), 0.0)
                time.sleep(LOOK_EVERY)
        if process.returncode:
            raise SystemExit(f"{process.args} ended with {process.returncode}")
        self.together.append(together)
        self.one_process.append(one_process)


def family(number: int) -> Iterator[int]:
    """A process and all that it and its children have started."""
    yield number
    with suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{number}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from family(int(child))


def resident(number: int) -> tuple[float, float]:
    """Megabytes of a process in memory: now, and at most so far; 0 if it has ended."""
    found = {"VmRSS": 0.0, "VmHWM": 0.0}
    with suppress(OSError):
        for line in Path(f"/proc/{number}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * 1024 / 1e6
    return found["VmRSS"], found["VmHWM"]


if __name__ == "__main__":
    main()
