"""What the analysis of heads while training costs: `training.analyze_every`.

    python -m bench.training_analysis CONFIG [--steps N] [--every N] [--set KEY=VALUE]

Trains on the same records in turns with and without, from the beginning. The time of a
training varies by more than an analysis takes, so the analyses are timed on their own
as well: the share is their seconds by the others of the same training.
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from bench.pairs import heading, row, spread
from transbeam import main as transbeam
from transbeam.trainer.analysis.training_analysis import TrainingAnalysis

ROUNDS = 3


class Timed:
    """Replaces `TrainingAnalysis.__call__` and adds up its seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._call = TrainingAnalysis.__call__

    def install(self) -> None:
        """Times all analyses of this process from now on."""

        def timed(analysis, *arguments):
            began = time.perf_counter()
            found = self._call(analysis, *arguments)
            self.seconds.append(time.perf_counter() - began)
            return found

        TrainingAnalysis.__call__ = timed


def main() -> None:
    """Trains in turns, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=500)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    timed = Timed()
    timed.install()
    shares, first, later = [], [], []
    wall: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as name:
        settings = [*arguments.settings, f"training.steps={arguments.steps}"]
        words = [str(arguments.config), "--run", str(Path(name) / "run"), "--quiet"]
        words += [word for setting in settings for word in ("--set", setting)]
        _run("data", *words)
        analyzing = ("--set", f"training.analyze_every={arguments.every}")
        for _ in range(ROUNDS):
            for analyzes in (True, False):
                timed.seconds.clear()
                shutil.rmtree(Path(name) / "run" / "training", ignore_errors=True)
                began = time.perf_counter()
                _run("train", *words, *(analyzing if analyzes else ()))
                wall[analyzes].append(time.perf_counter() - began)
                if analyzes:
                    rest = wall[True][-1] - sum(timed.seconds)
                    shares.append(100 * sum(timed.seconds) / rest)
                    first.append(timed.seconds[0])
                    later += timed.seconds[1:]
    print(heading("of a training", "median, smallest and largest"))
    print(row("whole, with analyses", spread(wall[True], ".1f", " s")))
    print(row("whole, without", spread(wall[False], ".1f", " s")))
    print(row("first analysis, traced", spread(first, ".2f", " s")))
    print(row("a later analysis", spread(later, ".3f", " s")))
    print(row("analyses by the rest", spread(shares, ".2f", "%")))


def _run(*words: str) -> None:
    if code := transbeam(list(words)):
        raise SystemExit(f"transbeam {words[0]}: ended with {code}")


if __name__ == "__main__":
    main()
