"""The memory that training steps take: with all scores and in chunks, and a peer's.

    python -m bench.training_memory [--torch-python PATH] [--work NAME ...]

Each is a process of its own that takes four steps; told is the most that it held in
the last three, with the library itself, weights and what the optimizer keeps. `plain`
is our update without our kernels, so with all scores of the vocabulary at once;
`blocks again` is `training.rematerialize`.
"""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from bench.answering import Answering
from bench.pairs import heading, row
from bench.training_step import MASKED, WORK, Work, hugging_face_words, ours
from transbeam.model.kernels.dispatch import plain

STEPS = 3
OURS = {
    "ours": [],
    "ours, blocks again": ["--rematerialize"],
    "ours, plain": ["--plain"],
}


def main() -> None:
    """Prints a table; or, with `--answer`, takes a step for every line."""
    parser = argparse.ArgumentParser(prog="bench.training_memory", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--answer", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--rematerialize", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        answer(WORK[arguments.answer], arguments.rematerialize, arguments.plain)
        return
    print(heading("work", "who", "most memory held"))
    for name in arguments.work:
        itself = [sys.executable, "-m", "bench.training_memory", "--answer", name]
        programs = {who: [*itself, *words] for who, words in OURS.items()}
        if arguments.torch_python:
            words = hugging_face_words(WORK[name], arguments.torch_python)
            programs["Hugging Face"] = [str(word) for word in words]
        for who, words in programs.items():
            peak = f"{peak_of(words, WORK[name]):,.0f} MB"
            print(row(WORK[name].title, who, peak), flush=True)


def peak_of(words: list[str], work: Work) -> float:
    """The megabytes that a program holds at most while it takes steps."""
    program = Answering(words)
    program.seconds(work.batch, MASKED)  # builds and traces
    return max(program.seconds_and_peak(work.batch, MASKED)[1] for _ in range(STEPS))


def answer(work: Work, rematerialize: bool, without_kernels: bool) -> None:
    """For every line a step, and its seconds."""
    with plain() if without_kernels else nullcontext():
        step = ours(work, rematerialize)
        for _ in sys.stdin:
            print(step(), flush=True)


if __name__ == "__main__":
    main()
