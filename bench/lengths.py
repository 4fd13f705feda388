"""An encoder's time and memory against the length of its input, batch 1, 4 x 256.

    python -m bench.lengths [--torch-python PATH] [--figure lengths.svg]

Each way is a process of its own, and they run in turns. Memory is what the process
holds at most during the call, beyond what it held after a call of 16 tokens; lengths
must grow, since a process keeps some of what it once needed.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.answering import Answering
from bench.encoders import Run, Shape, hugging_face_bert, keras_hub_bert, ours
from bench.pairs import heading, row, spread
from transbeam.configs.schema.attention import (
    FullAttentionConfig,
    KernelAttentionConfig,
    LowRankAttentionConfig,
    SlidingWindowAttentionConfig,
)

LENGTHS = (128, 256, 512, 1024, 2048, 4096)
SHAPE = Shape(4, 256, num_heads=4, max_sequence_length=max(LENGTHS))
ATTENTIONS = {
    "full": FullAttentionConfig,
    "window 512": SlidingWindowAttentionConfig,
    "low rank": LowRankAttentionConfig,
    "kernel": KernelAttentionConfig,
}
WAYS = (*ATTENTIONS, "KerasHub")


def main() -> None:
    """Prints two tables: milliseconds and megabytes."""
    parser = argparse.ArgumentParser(prog="bench.lengths", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--figure", type=Path, help="draw both tables")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        answer(arguments.worker, arguments.dtype)
        return
    command = [sys.executable, "-m", "bench.lengths", "--dtype", arguments.dtype]
    workers = {way: Answering([*command, "--worker", way]) for way in arguments.ways}
    if python := arguments.torch_python:
        workers["Hugging Face"] = hugging_face_bert(SHAPE, arguments.dtype, python)
    ways = list(workers)
    for worker in workers.values():
        worker.seconds(1, 16)
    before = {way: worker.held() for way, worker in workers.items()}
    times = [heading("ms at T", *ways)]
    memory = [heading("MB at T", *ways)]
    medians: dict[str, list[float]] = {way: [] for way in ways}
    peaks: dict[str, list[float]] = {way: [] for way in ways}
    for length in arguments.lengths:
        milliseconds: dict[str, list[float]] = {way: [] for way in ways}
        megabytes = dict.fromkeys(ways, 0.0)
        for number in range(arguments.rounds + 1):
            for way, worker in workers.items():
                seconds, peak = worker.seconds_and_peak(1, length)
                megabytes[way] = max(megabytes[way], peak - before[way])
                if number:  # the first traces and warms up
                    milliseconds[way].append(1e3 * seconds)
        cells = [spread(milliseconds[way], ".1f") for way in ways]
        times.append(row(f"{length:,}", *cells))
        memory.append(row(f"{length:,}", *(f"{megabytes[way]:.0f}" for way in ways)))
        for way in ways:
            medians[way].append(statistics.median(milliseconds[way]))
            peaks[way].append(megabytes[way])
        print(times[-1], flush=True)
    print("\n".join(["", *times, "", *memory]))
    if arguments.figure:
        draw(arguments.figure, arguments.lengths, {"ms": medians, "MB": peaks})


def draw(
    path: Path, lengths: Sequence[int], values: dict[str, dict[str, list[float]]]
) -> None:
    """Draws time and memory against the length, a line for each way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for place, (unit, ways) in enumerate(values.items(), start=1):
        axes = figure.add_subplot(1, len(values), place)
        for way, numbers in ways.items():
            axes.plot(lengths, numbers, marker="o", markersize=3, label=way)
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel=unit)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path)


def answer(way: str, dtype: str) -> None:
    """For every batch and length it reads, runs a forward and writes the seconds."""
    if way == "KerasHub":
        run: Run = keras_hub_bert(SHAPE, dtype)
    else:
        run = ours(SHAPE, dtype, ATTENTIONS[way](num_heads=SHAPE.num_heads))
    for line in sys.stdin:
        batch, length = map(int, line.split())
        print(run(batch, length), flush=True)


if __name__ == "__main__":
    main()
