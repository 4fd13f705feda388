"""A text at a time on a phone's runtime: our files, KerasHub's, ONNX Runtime.

    python -m bench.phones --peer-python PATH [--models bert_base minilm ...]

Classifiers of the same sizes with weights at random; rows of ids without padding; each
file in a process of its own, and they take turns. KerasHub's model is converted by
Keras's own `export(format="litert")`, and for int8 by TensorFlow's converter. `PATH` is
the Python of an environment with torch, transformers, onnx and onnxruntime.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.answering import Answering
from bench.pairs import heading, row, spread
from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner

PEER = Path(__file__).parent / "peers/hf_classifier.py"
MODELS = ("bert_base", "minilm", "phone_classifier")
LENGTHS = (128, 32)
WARM_UP = 10  # calls
IDS = (1000, 8000)


def main() -> None:
    """Prints a table for each model, or answers as one of the programs."""
    if sys.argv[1:2] == ["--ask"]:
        return answer(Path(sys.argv[2]), int(sys.argv[3]))
    parser = argparse.ArgumentParser(prog="bench.phones", description=__doc__)
    parser.add_argument("--peer-python", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20)
    arguments = parser.parse_args()
    for name in arguments.models:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            files = whole(name, folder)
            print(f"\n{name}, megabytes: " + ", ".join(sizes(files)))
            for threads in arguments.threads:
                programs = started(name, files, folder, threads, arguments.peer_python)
                measure(name, threads, programs, arguments.rounds, arguments.calls)
    return None


def whole(name: str, folder: Path) -> dict[str, Path]:
    """Our files and KerasHub's, made in a process that then ends."""
    Answering([sys.executable, "-m", "bench.phone_files", name, folder]).seconds("go")
    return {file.stem: file for file in sorted(folder.glob("*.tflite"))}


def sizes(files: dict[str, Path]) -> list[str]:
    full = files["ours float32"].stat().st_size
    return [
        f"{name} {file.stat().st_size / 1e6:.1f} ({file.stat().st_size / full:.3f}x)"
        for name, file in files.items()
    ]


def started(
    name: str, files: dict[str, Path], folder: Path, threads: int, python: Path
) -> dict[str, Answering]:
    """The programs that are measured, each with its file loaded."""
    programs = {
        label: Answering([sys.executable, "-m", "bench.phones", "--ask", file, threads])
        for label, file in files.items()
    }
    checkpoint = folder / "checkpoint"
    for label, how in (("float32", "onnx"), ("dynamic_int8", "onnx-int8")):
        program = Answering([python, PEER, checkpoint, how, name, threads])
        program.seconds(1, LENGTHS[0])  # the first makes the checkpoint
        programs[f"ONNX Runtime {label}"] = program
    return programs


def measure(
    name: str, threads: int, programs: dict[str, Answering], rounds: int, calls: int
) -> None:
    """Measures in turns, and prints the table."""
    taken: dict[str, list[list[float]]] = {
        label: [[] for _ in LENGTHS] for label in programs
    }
    for number in range(rounds + 1):
        for label, program in programs.items():
            for place, length in enumerate(LENGTHS):
                program.seconds(2 if number else WARM_UP, length)
                seconds = program.seconds(calls, length)
                if number:  # the first warms up
                    taken[label][place].append(1000 * seconds)
    heads = [f"T={length}, p50" for length in LENGTHS]
    print(heading(f"{name}, {threads} threads", *heads, "its / ours"))
    for label, times in taken.items():
        cells = [spread(times[place], ".2f", " ms") for place in range(len(LENGTHS))]
        ours = taken[f"ours {label.split()[-1]}"]
        ratios = ""
        if not label.startswith("ours"):
            ratios = ", ".join(
                spread([b / a for a, b in zip(mine, its, strict=True)], ".2f", "x")
                for mine, its in zip(ours, times, strict=True)
            )
        print(row(label, *cells, ratios), flush=True)


def answer(file: Path, threads: int) -> None:
    """Asks a TFLite file until the input ends."""
    ask = asking(TFLiteRunner(file, num_threads=threads))
    for line in sys.stdin:
        calls, length = map(int, line.split())
        ids = np.random.default_rng(0).integers(*IDS, (1, length), np.int32)
        taken = []
        for _ in range(calls):
            began = time.perf_counter()
            ask(ids)
            taken.append(time.perf_counter() - began)
        print(statistics.median(taken), flush=True)


def asking(model: TFLiteRunner) -> Callable[[np.ndarray], object]:
    """A function of rows of ids, whatever the inputs are called."""
    [signature] = model.signatures
    names = list(model.shapes(signature))

    def ask(ids: np.ndarray) -> object:
        inputs = {name: np.ones_like(ids) for name in names}
        for name in names:
            if "token_ids" in name:
                inputs[name] = ids
            elif "segment" in name:
                inputs[name] = 0 * ids
        return model.run(signature, **inputs)

    return ask


if __name__ == "__main__":
    main()
