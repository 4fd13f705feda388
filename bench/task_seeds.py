"""The scores of one task by several seeds, side by side.

    python -m bench.task_seeds RUN... [--split validation]

Each `RUN` is the folder of a run of one configuration with a seed of its own, which
`transbeam evaluate RUN --test` has judged. A row has the mean over the seeds, the score
of each, and the mean of the lower and of the upper ends of their intervals: those are
over documents, and the same documents for all seeds, so they do not become narrower by
more seeds. The minutes are those of the training, with its validations.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.pairs import heading, row


def main() -> None:
    """Prints a row for each score."""
    parser = argparse.ArgumentParser(prog="bench.task_seeds", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--split", default="test")
    arguments = parser.parse_args()
    found = [scores(run, arguments.split) for run in arguments.runs]
    minutes = ", ".join(f"{training_seconds(r) / 60:.0f}" for r in arguments.runs)
    print(heading(f"{len(found)} seeds, {minutes} minutes", "mean", "each"))
    for name in found[0]:
        each = [of_seed[name] for of_seed in found]
        score, low, high = (
            np.mean([of[part] for of in each]) for part in ("score", "low", "high")
        )
        listed = ", ".join(f"{of['score']:.3f}" for of in each)
        print(row(name, f"{score:.3f} ({low:.3f}-{high:.3f})", listed))


def scores(run: Path, split: str) -> dict[str, Any]:
    """The scores of a run with their intervals."""
    file = run / "evaluation" / split / "scores.json"
    return json.loads(file.read_text("utf-8"))["scores"]


def training_seconds(run: Path) -> float:
    """Seconds that the training took, with its validations."""
    lines = (run / "training/metrics.jsonl").read_text("utf-8").splitlines()
    return max(json.loads(line)["seconds"] for line in lines)


if __name__ == "__main__":
    main()
