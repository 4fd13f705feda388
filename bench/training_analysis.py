"""Times the analysis of heads while training: `training.analyze_every`.

    python -m bench.training_analysis CONFIG [--steps N] [--every N] [--set KEY=VALUE]

Trains with analyses, three times from the beginning, and times each analysis inside of
the training. The table has its share of the time of 500 steps.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.pairs import heading, row, spread
from transbeam import main as transbeam
from transbeam.trainer.analysis.training_analysis import TrainingAnalysis

ROUNDS, EVERY = 3, 500


def main() -> None:
    """Trains, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    taken = _time_analyses()
    first, later, steps = [], [], []
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        settings = [
            *arguments.settings,
            f"training.steps={arguments.steps}",
            f"training.evaluate_every={arguments.steps}",
            f"training.analyze_every={arguments.every}",
        ]
        words = [str(arguments.config), "--run", str(run), "--quiet"]
        words += [word for setting in settings for word in ("--set", setting)]
        _run("data", *words)
        for _ in range(ROUNDS):
            taken.clear()
            shutil.rmtree(run / "training", ignore_errors=True)
            _run("train", *words)
            first.append(taken[0])
            later += taken[1:]
            steps.append(_seconds_per_step(run))
    step = statistics.median(steps)
    print(heading("of a training", "median, smallest and largest"))
    print(row("a step", spread([1000 * x for x in steps], ".1f", " ms")))
    for title, seconds in (
        ("the first analysis, traced", first),
        ("a later one", later),
    ):
        print(row(title, spread(seconds, ".3f", " s")))
        shares = [100 * x / (EVERY * step) for x in seconds]
        print(row(f"of {EVERY} steps", spread(shares, ".2f", "%")))


def _time_analyses() -> list[float]:
    """Lets each analysis of this process append its seconds to the list."""
    taken: list[float] = []
    analyze = TrainingAnalysis.__call__

    def timed(analysis, *arguments):
        began = time.perf_counter()
        found = analyze(analysis, *arguments)
        taken.append(time.perf_counter() - began)
        return found

    TrainingAnalysis.__call__ = timed
    return taken


def _seconds_per_step(run: Path) -> float:
    """Returns the median over the log's intervals, few of which have an analysis."""
    lines = (run / "training/metrics.jsonl").read_text("utf-8").splitlines()
    rows = [line for line in map(json.loads, lines) if "loss" in line]
    between = [
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in pairwise(rows)
    ]
    return statistics.median(between)


def _run(*words: str) -> None:
    if code := transbeam(list(words)):
        raise SystemExit(f"transbeam {words[0]}: ended with {code}")


if __name__ == "__main__":
    main()
