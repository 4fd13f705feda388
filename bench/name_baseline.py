"""A baseline for summaries of functions: the function's name as a sentence.

    python -m bench.name_baseline RUN/evaluation/validation/answers.jsonl

Reads what `transbeam evaluate` wrote of a run of `configs/tasks/python_summaries.yaml`,
and scores beside the model's answers two that need no model, on the same functions: the
words of the function's name, and these as a sentence. Then once more without the
functions that share their summary with one that was trained on, such as an override.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.pairs import heading, row
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.trainer.evaluation.generation_eval import text_scores

NAME = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
# A run of capitals, a word with or without a capital, or a number.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SCORES = ("chrf", "rouge")


def main() -> None:
    """Prints a table of all functions, and one of those whose summary is new."""
    parser = argparse.ArgumentParser(prog="bench.name_baseline", description=__doc__)
    parser.add_argument("answers", type=Path, help="answers.jsonl of an evaluation")
    path = parser.parse_args().answers
    told = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    compare("functions", told)
    learned = summaries_learned(path.parents[2] / "data/documents", told)
    new = [one for one in told if one["target"] not in learned]
    compare("of which the summary is no other's in training", new)


def compare(what: str, told: Sequence[dict[str, Any]]) -> None:
    """Prints a row for each way to answer."""
    words = [" ".join(words_of(one["text"])) for one in told]
    guesses = {
        "the model": [one["answer"] for one in told],
        "the words of the name": words,
        "the same as a sentence": [f"{each.capitalize()}." for each in words],
    }
    references = [one["target"] for one in told]
    found = {
        name: text_scores(answers, references, SCORES, seed=1)
        for name, answers in guesses.items()
    }
    print(heading(f"{len(told):,} {what}", *found["the model"]))
    for name, scores in found.items():
        numbers = [f"{s.score:.3f} ({s.low:.3f}-{s.high:.3f})" for s in scores.values()]
        print(row(name, *numbers))


def summaries_learned(documents: Path, told: Sequence[dict[str, Any]]) -> set[str]:
    """The summaries of the functions that were not held out."""
    held_out = {(one["source"], one["offset"]) for one in told}
    learned = set()
    for path in sorted(documents.glob("*.arrow")):
        batch = DocumentBatch.load(path)
        columns = (
            batch.values("source"),
            batch.values("offset"),
            batch.texts("target_text"),
        )
        for source, offset, target in zip(*columns, strict=True):
            if (source, offset) not in held_out:
                learned.add(target.decode("utf-8"))
    return learned


def words_of(code: str) -> list[str]:
    """The words of the name of the function that some code defines.

    Example:
    >>> words_of("def _readHTTPHeader2(self):")
    ['read', 'http', 'header', '2']
    """
    match = NAME.search(code)
    return [word.lower() for word in WORD.findall(match[1])] if match else []


if __name__ == "__main__":
    main()
