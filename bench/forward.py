"""BERT-base forward, 8 x 128 tokens: ours, KerasHub's, Hugging Face's.

    python -m bench.forward [--torch-python PATH]

`PATH` is the Python of an environment with torch and transformers. All run in turns.
"""

import argparse
from pathlib import Path

from bench.encoders import BASE, Run, hugging_face_bert, keras_hub_bert, ours
from bench.pairs import Pair, heading

BATCH, LENGTH = 8, 128


def main() -> None:
    """Prints a table: a row for each peer and dtype."""
    parser = argparse.ArgumentParser(prog="bench.forward", description=__doc__)
    parser.add_argument("--torch-python", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    print(heading("work", "ours", "peer", "ratio"))
    for dtype in ("float32", "bfloat16"):
        for pair in measure(dtype, arguments.torch_python, arguments.rounds):
            print(pair.as_row(), flush=True)


def measure(dtype: str, torch_python: Path | None, rounds: int) -> list[Pair]:
    """Our runs beside those of each peer."""
    runs: dict[str, Run] = {
        "ours": ours(BASE, dtype),
        "KerasHub": keras_hub_bert(BASE, dtype),
    }
    if torch_python:
        for kind in ("eager", "sdpa"):
            peer = hugging_face_bert(BASE, dtype, torch_python, kind)
            runs[f"Hugging Face {kind}"] = peer.seconds
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            taken = run(BATCH, LENGTH)
            if number:  # the first warms up
                seconds[name].append(taken)
    mine = seconds.pop("ours")
    work = f"BERT-base forward, {BATCH}x{LENGTH}, {dtype}"
    return [
        Pair(work, peer, mine, theirs, BATCH * LENGTH, "tokens")
        for peer, theirs in seconds.items()
    ]


if __name__ == "__main__":
    main()
