"""One text-to-text model for several tasks, beside one for each of them.

    python -m bench.one_for_many --one RUN... --apart SUITE...

`--one` are runs of `configs/tasks/four_tasks.yaml` by several seeds, judged on test,
and `--apart` the folders of `configs/suites/four_tasks_apart.yaml` by the same seeds.
A row of the table is a part, with the shares of right answers, the mean over the seeds
and each, and with their difference. Its interval of 95% is the bootstrap's over
documents, each of which counts by the mean over the seeds of what it gains or loses.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from bench.pairs import heading, row
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

SEED = 1


def main() -> None:
    """Prints a row for each part."""
    parser = argparse.ArgumentParser(prog="bench.one_for_many", description=__doc__)
    parser.add_argument("--one", nargs="+", type=Path, required=True)
    parser.add_argument("--apart", nargs="+", type=Path, required=True)
    arguments = parser.parse_args()
    one = [right_answers(run) for run in arguments.one]
    print(heading("part, documents", "one", "apart", "difference"))
    for part in sorted(suite_rows(arguments.apart[0])):
        apart = [right_answers(suite / part) for suite in arguments.apart]
        documents = sorted(apart[0])
        ours, theirs = (
            np.array([[seed[document] for document in documents] for seed in seeds])
            for seeds in (one, apart)
        )
        print(
            row(
                f"{part}, {len(documents):,}",
                each(ours),
                each(theirs),
                shown(interval(ours.mean(axis=0) - theirs.mean(axis=0)), "+"),
            ),
            flush=True,
        )


def suite_rows(suite: Path) -> list[str]:
    """The names of a suite's rows."""
    rows = json.loads((suite / "suite.json").read_text("utf-8"))["rows"]
    return [of["name"] for of in rows]


def right_answers(run: Path) -> dict[tuple[str, int], bool]:
    """Right (True) and wrong answers to the documents of the test set, by place."""
    lines = (run / "evaluation/test/answers.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found = {(of["source"], of["offset"]): of["answer"] == of["target"] for of in rows}
    assert len(found) == len(rows), "two documents have one place"
    return found


def each(right: np.ndarray) -> str:
    """The mean over the seeds with its interval, and the share of each seed."""
    seeds = ", ".join(f"{share:.3f}" for share in right.mean(axis=1))
    return f"{shown(interval(right.mean(axis=0)))}: {seeds}"


def interval(values: np.ndarray) -> Interval:
    """The mean of values of documents, with its interval."""
    statistics = np.stack([values, np.ones(len(values))], axis=1)
    scores = intervals(
        statistics, lambda sums: {"mean": sums[..., 0] / sums[..., 1]}, SEED
    )
    return scores["mean"]


def shown(of: Interval, sign: str = "") -> str:
    return f"{of.score:{sign}.3f} ({of.low:{sign}.3f} to {of.high:{sign}.3f})"


if __name__ == "__main__":
    main()
