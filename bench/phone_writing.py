"""Writing with a decoder of 15 MB on a phone's runtime: ours, ONNX Runtime, PyTorch.

    python -m bench.phone_writing --peer-python PATH

LLaMA's blocks in the same sizes with weights at random; a prompt of 64 tokens is read
and 64 more are written, greedily, by a process for each, in turns. Beside the tokens
of a second stands what the last 16 tokens took for what the first 16 did: 1 if a token
costs the same wherever it stands. `PATH` is the Python of an environment with torch,
transformers, onnx and onnxruntime.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.answering import Answering
from bench.pairs import heading, row, spread
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.runtimes.tflite_generator import PhoneWriter

PEER = Path(__file__).parent / "peers/hf_writer.py"
PROMPT, NEW, EDGE = 64, 64, 16
IDS = (5, 8192)
# What each program is asked, as `PROMPT SKIP NEW`.
READ, WRITE = (PROMPT, 0, 0), (PROMPT, 0, NEW)
FIRST, LAST = (PROMPT, 0, EDGE), (PROMPT, NEW - EDGE, EDGE)
QUESTIONS = (READ, WRITE, FIRST, LAST)

# Seconds by question, a round each.
Taken = dict[tuple[int, int, int], list[float]]


def main() -> None:
    """Prints a table for each number of threads, or answers as one of the programs."""
    if sys.argv[1:2] == ["--ask"]:
        return answer(Path(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(prog="bench.phone_writing", description=__doc__)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python = [sys.executable, "-m"]
        Answering([*python, "bench.phone_files", "writer", folder]).seconds("go")
        files = sorted(folder.glob("*.tflite"))
        sizes = [f"{each.stem} {each.stat().st_size / 1e6:.1f}" for each in files]
        print("megabytes: " + ", ".join(sizes))
        for threads in arguments.threads:
            ask = [*python, "bench.phone_writing", "--ask"]
            programs = {file.stem: Answering([*ask, file, threads]) for file in files}
            for label, how in (
                ("ONNX Runtime float32", "onnx"),
                ("ONNX Runtime dynamic_int8", "onnx-int8"),
                ("PyTorch float32", "float32"),
            ):
                command = [arguments.peer_python, PEER, folder / "checkpoint", how]
                programs[label] = Answering([*command, threads])
                programs[label].seconds(*WRITE)  # the first makes the checkpoint
            show(threads, measured(programs, arguments.rounds))
    return None


def measured(programs: dict[str, Answering], rounds: int) -> dict[str, Taken]:
    """All in turns; the first round warms up."""
    found: dict[str, Taken] = {
        label: {question: [] for question in QUESTIONS} for label in programs
    }
    for number in range(rounds + 1):
        for label, program in programs.items():
            program.seconds(*WRITE)
            for question in QUESTIONS:
                seconds = program.seconds(*question)
                if number:
                    found[label][question].append(seconds)
    return found


def show(threads: int, found: dict[str, Taken]) -> None:
    """Prints the table."""
    heads = ("ms until the first token", "tokens/s", "ms a token", "last 16 / first 16")
    print(heading(f"{threads} threads", *heads, "ours / its tokens/s"))
    for label, taken in found.items():
        ours = found[f"ours {label.split()[-1]}"]
        beside = ""
        if not label.startswith("ours"):
            beside = spread(_ratios(taken[WRITE], ours[WRITE]), ".2f", "x")
        cells = (
            spread([1000 * each for each in taken[READ]], ".2f"),
            spread([NEW / each for each in taken[WRITE]], ",.0f"),
            spread([1000 * each / NEW for each in taken[WRITE]], ".2f"),
            spread(_ratios(taken[LAST], taken[FIRST]), ".2f"),
        )
        print(row(label, *cells, beside), flush=True)


def _ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def answer(file: Path, threads: int) -> None:
    """Writes with a TFLite file until the input ends."""
    writer = PhoneWriter(TFLiteRunner(file, num_threads=threads))
    for line in sys.stdin:
        prompt, skip, new = map(int, line.split())
        ids = np.random.default_rng(0).integers(*IDS, prompt)
        began = time.perf_counter()
        logits = writer.begin(ids)
        for number in range(skip + new):
            if number == skip:
                began = time.perf_counter()
            logits = writer.read(int(logits.argmax()))
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
