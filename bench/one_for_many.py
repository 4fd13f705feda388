"""One text-to-text model for several tasks, beside one for each of them.

    python -m bench.one_for_many --one RUN... --apart SUITE...

`--one` are runs of `configs/tasks/four_tasks.yaml` by several seeds, judged on test,
and `--apart` the folders of `configs/suites/four_tasks_apart.yaml` by the same seeds.
A row of the table is a part, with the shares of right answers, the mean over the seeds
and each, and with the differences of the one model to those apart and to logistic
regression on TF-IDF (`bench.task_baselines`). Their intervals of 95% are the
bootstrap's over documents, each of which counts by the mean over the seeds of what it
gains or loses.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.pairs import heading, row
from bench.task_baselines import documents, known_documents, task_config, tf_idf
from transbeam.pipeline.documents.document import Document
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals

Places = dict[tuple[str, int], bool]

SEED = 1


def main() -> None:
    """Prints a row for each part."""
    parser = argparse.ArgumentParser(prog="bench.one_for_many", description=__doc__)
    parser.add_argument("--one", nargs="+", type=Path, required=True)
    parser.add_argument("--apart", nargs="+", type=Path, required=True)
    arguments = parser.parse_args()
    one = [right_answers(run) for run in arguments.one]
    config = task_config("four_tasks")
    known, test = known_documents(config), documents(config.evaluation.test)
    print(heading("part, documents", "one", "apart", "to apart", "to TF-IDF"))
    for part in dict.fromkeys(name for name, _ in test):
        apart = [right_answers(suite / str(part)) for suite in arguments.apart]
        learned, asked = (
            [document for name, document in each if name == part]
            for each in (known, test)
        )
        simple = [right_guesses(learned, asked)]
        places = sorted(apart[0])
        ours, theirs, baseline = (
            np.array([[of_seed[place] for place in places] for of_seed in of])
            for of in (one, apart, simple)
        )
        gains = (ours.mean(axis=0) - of.mean(axis=0) for of in (theirs, baseline))
        print(
            row(
                f"{part}, {len(places):,}",
                *(shown_with_each(of) for of in (ours, theirs)),
                *(shown(interval(gain), "+") for gain in gains),
            ),
            flush=True,
        )


def right_answers(run: Path) -> Places:
    """Right (True) and wrong answers to the documents of the test set, by place."""
    lines = (run / "evaluation/test/answers.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    found = {(of["source"], of["offset"]): of["answer"] == of["target"] for of in rows}
    assert len(found) == len(rows), "two documents have one place"
    return found


def right_guesses(learned: Sequence[Document], asked: Sequence[Document]) -> Places:
    """The same of logistic regression on TF-IDF."""
    guesses = tf_idf(learned, asked)
    return {
        (document.source, document.offset): document.label == guess
        for document, guess in zip(asked, guesses, strict=True)
    }


def shown_with_each(right: np.ndarray) -> str:
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
