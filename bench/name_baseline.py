"""What a function does, by its name alone: the guess that a model has to beat.

    python -m bench.name_baseline RUN/evaluation/validation/answers.jsonl

Reads what `transbeam evaluate` wrote of a run of `configs/tasks/python_summaries.yaml`,
and scores beside the model's answers two that need no model, on the same functions: the
words of the function's name, and these as a sentence.
"""

import argparse
import json
import re
from pathlib import Path

from bench.pairs import heading, row
from trainer.evaluation.text_scores import text_scores

NAME = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
# A run of capitals, a word with or without a capital, or a number.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
SCORES = ("chrf", "rouge")


def main() -> None:
    """Prints a row for each way to answer."""
    parser = argparse.ArgumentParser(prog="bench.name_baseline", description=__doc__)
    parser.add_argument("answers", type=Path, help="answers.jsonl of an evaluation")
    lines = parser.parse_args().answers.read_text("utf-8").splitlines()
    told = [json.loads(line) for line in lines]
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
    print(heading(f"{len(told):,} functions", *found["the model"]))
    for name, scores in found.items():
        numbers = [f"{s.score:.3f} ({s.low:.3f}-{s.high:.3f})" for s in scores.values()]
        print(row(name, *numbers))


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
