"""An encoder's time and memory against the length of its input, batch 1, 4 x 256.

    python -m bench.lengths [--torch-python PATH] [--lengths 128 256 ...]

Each way is a process of its own, and they run in turns. Memory is what the process
holds at most during the call, beyond what it held before; a small number may be none.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.pairs import heading, row, spread

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
WAYS = ("full", "window 512", "low rank", "kernel", "KerasHub")


def main() -> None:
    """Prints two tables: milliseconds and megabytes."""
    parser = argparse.ArgumentParser(prog="bench.lengths", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.dtype, arguments.torch_python)
        return
    ways = list(arguments.ways)
    if arguments.torch_python:
        ways.append("Hugging Face sdpa")
    workers = {way: _start(way, arguments) for way in ways}
    times = [heading("ms at T", *ways)]
    memory = [heading("MB at T", *ways)]
    for length in arguments.lengths:
        milliseconds: dict[str, list[float]] = {way: [] for way in ways}
        megabytes = dict.fromkeys(ways, 0.0)
        for number in range(arguments.rounds + 1):
            for way, ask in workers.items():
                seconds, megabytes[way] = ask(length)
                if number:  # the first traces and warms up
                    milliseconds[way].append(1e3 * seconds)
        cells = [spread(milliseconds[way], ".1f") for way in ways]
        times.append(row(f"{length:,}", *cells))
        memory.append(row(f"{length:,}", *(f"{megabytes[way]:.0f}" for way in ways)))
        print(times[-1], flush=True)
    print("\n".join(["", *times, "", *memory]))


def work(way: str, dtype: str, torch_python: Path | None) -> None:
    """For every length it reads, runs one forward; writes seconds and megabytes."""
    from bench.encoders import Shape, hugging_face_bert, keras_hub_bert, ours
    from configs.attention import (
        FullAttention,
        KernelAttention,
        LowRankAttention,
        SlidingWindowAttention,
    )

    shape = Shape(4, 256, num_heads=4, max_sequence_length=max(LENGTHS))
    attentions = {
        "full": FullAttention,
        "window 512": SlidingWindowAttention,
        "low rank": LowRankAttention,
        "kernel": KernelAttention,
    }
    if way in attentions:
        run = ours(shape, dtype, attentions[way](num_heads=4))
    elif way == "KerasHub":
        run = keras_hub_bert(shape, dtype)
    else:
        assert torch_python is not None
        run = hugging_face_bert(shape, dtype, torch_python)
    for line in sys.stdin:
        before = _forget_peak()
        seconds = run(1, int(line))
        print(seconds, (_status("VmHWM") - before) / 1e3, flush=True)


def _start(way: str, arguments: argparse.Namespace) -> Callable[[int], tuple]:
    words = [sys.executable, "-m", "bench.lengths", "--worker", way]
    words += ["--dtype", arguments.dtype]
    if arguments.torch_python:
        words += ["--torch-python", str(arguments.torch_python)]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(length: int) -> tuple:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{length}\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"{' '.join(words)} has ended; try it by hand")
        return tuple(map(float, answer.split()))

    return ask


def _forget_peak() -> int:
    """Lets the kernel count the peak anew; gives the kilobytes held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise KeyError(field)


if __name__ == "__main__":
    main()
