"""Warnings name the key that loses something."""

from typing import Any

from transbeam.configs.cli.console import Console
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.configs.schema.objectives.supervised import (
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import TextSourceConfig
from transbeam.pipeline.accounting.job_warnings import warn_of_losses

RESULT: dict[str, Any] = {
    "counts": {"records": {"train": 9, "validation": 1}},
    "leaks_left": 0,
    "truncated": {"documents_share": 0.0, "tokens_share": 0.4},
}


class Warned(Console):
    """A console that keeps its warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said.append(text)


def warned(result: dict[str, Any] = RESULT, **sections: Any) -> str:
    data = DataConfig(source=TextSourceConfig(path="a.txt"), sequence_length=128)
    console = Warned()
    warn_of_losses(console, RunConfig(name="a", data=data, **sections), result)
    (sentence,) = console.said
    return sentence


def test_questions_that_are_cut_name_their_own_limit() -> None:
    said = warned(objective=SpanQAConfig(max_question_length=20))
    assert said.startswith("40.0% of the tokens are in no record: questions are cut")
    assert "objective.max_question_length=20 " in said


def test_documents_that_are_cut_name_the_record() -> None:
    assert "longer than a record of data.sequence_length=128" in warned()


def test_tags_that_are_not_read_as_entities_are_named() -> None:
    labels = ("O", "B-PER", "I-PER", "[CLS]", "X")
    objective = TokenClassificationConfig(labels=labels)
    said = warned({**RESULT, "truncated": None}, objective=objective)
    assert said.startswith("objective.labels look like entity tags, except [CLS]")


def test_hard_negatives_that_no_document_has_are_named() -> None:
    result = {**RESULT, "truncated": None}
    objective = ContrastivePairsConfig(hard_negatives=True)
    said = warned(result, objective=objective)
    assert said.startswith("objective.hard_negatives=true, and no document has a hard")
    counts = {**result["counts"], "hard_negatives": {"train": 3}}
    console = Warned()
    data = DataConfig(source=TextSourceConfig(path="a.txt"))
    run = RunConfig(name="a", data=data, objective=objective)
    warn_of_losses(console, run, {**result, "counts": counts})
    assert console.said == []
