"""Questions of a task, with their possible and right answers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from string import ascii_uppercase

from transbeam.configs.base.errors import DataError
from transbeam.configs.base.templates import fill_template
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.sources import SingleSource
from transbeam.configs.schema.task_file import (
    ChoiceTaskConfig,
    GenerationTaskConfig,
    PromptedTask,
)
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.evaluation_set import without_drops
from transbeam.pipeline.sources.corpus_files import errors_named, list_files
from transbeam.pipeline.sources.work_units import plan_units, read_unit
from transbeam.pipeline.steps.clean_documents import cleaned

_UNIT_BYTES = 1 << 40  # a file is read by one process, so none is split


@dataclass(frozen=True)
class Question:
    """A question of a task.

    Attributes:
        source: The file's name within the source.
        offset: The document's position in the file.
        prompt: The filled template.
        answers: The choices of a choice task; all right answers of a generation task.
        right: Index of the right answer, which a shot shows.
    """

    source: str
    offset: int
    prompt: str
    answers: tuple[str, ...]
    right: int = 0

    @property
    def solution(self) -> str:
        """The answer that a shot shows."""
        return self.answers[self.right]


@dataclass(frozen=True)
class Questions:
    """The questions of a source, and the documents that are none.

    Attributes:
        questions: The questions, in the order of the source.
        left_out: Number of documents that are no question, by reason.
    """

    questions: tuple[Question, ...]
    left_out: Counter[str]


class _NoQuestion(Exception):
    """A document is no question; the argument is the reason."""


def read_questions(
    task: PromptedTask,
    source: SingleSource,
    key: str,
    config: RunConfig,
    limit: int | None = None,
) -> Questions:
    """Reads the questions of a task, or those for its shots.

    Args:
        task: The task.
        source: The source of the questions.
        key: The key of the source in error messages.
        config: The run, as whose texts the questions are normalized.
        limit: Maximum number of questions.

    Raises:
        DataError: A file is missing or cannot be read, or no document is a question.
    """
    questions: list[Question] = []
    left_out: Counter[str] = Counter()
    for document in read_documents(source, key, config, left_out):
        if limit is not None and len(questions) == limit:
            break
        try:
            questions.append(_question(document, task))
        except _NoQuestion as reason:
            left_out[str(reason)] += 1
    if not questions:
        raise DataError(
            f"{key}: no document is a question of the task {task.name!r}: "
            f"{list_reasons(left_out) or 'there are none'}. Fix the source, its "
            "columns or the task's choices"
        )
    return Questions(tuple(questions), left_out)


def read_documents(
    source: SingleSource, key: str, config: RunConfig, left_out: Counter[str]
) -> Iterator[Document]:
    """Yields the documents of a source, and counts what is none.

    Args:
        source: The source.
        key: Its key in error messages.
        config: The run, as whose texts the documents are normalized; its filters drop
            none of them.
        left_out: Gets the number of unreadable and excluded documents, by reason.

    Raises:
        DataError: A file is missing or cannot be read.
    """
    config = without_drops(config, source)
    with errors_named(key):
        for unit in plan_units(list_files(source), source, _UNIT_BYTES):
            for item in map(partial(cleaned, config=config), read_unit(unit, source)):
                if isinstance(item, Document):
                    yield item
                else:
                    left_out[item.reason] += 1


def _question(document: Document, task: PromptedTask) -> Question:
    values = _values(document)
    prompt = fill_template(task.prompt, values)
    match task:
        case ChoiceTaskConfig():
            answers, right = _choices(document, task)
        case GenerationTaskConfig():
            answers, right = _references(document, task, values), 0
    return Question(document.source, document.offset, prompt, answers, right)


def _values(document: Document) -> dict[str, str]:
    """The fields of a document that are text."""
    fields = document._asdict()
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _choices(document: Document, task: ChoiceTaskConfig) -> tuple[tuple[str, ...], int]:
    if task.choices:
        labels = [choice.label for choice in task.choices]
        if document.label not in labels:
            raise _NoQuestion(f"label {document.label!r} is no choice")
        texts = tuple(choice.text for choice in task.choices)
        return texts, labels.index(document.label)
    choices = document.choices
    if len(choices) < 2:
        raise _NoQuestion("fewer than two choices")
    if len(set(choices)) < len(choices):
        raise _NoQuestion("two equal choices")
    right = _number(document.label, choices, task)
    if right is None or not 0 <= right < len(choices):
        raise _NoQuestion(
            f"the label is no {task.answer.replace('_', ' ')} of a choice"
        )
    return choices, right


def _number(label: str, choices: tuple[str, ...], task: ChoiceTaskConfig) -> int | None:
    """Returns the number that a label means, which need not be that of a choice."""
    match task.answer:
        case "text":
            return choices.index(label) if label in choices else None
        case "letter":
            upper = label.strip().upper()
            is_letter = len(upper) == 1 and upper in ascii_uppercase
            return ascii_uppercase.index(upper) if is_letter else None
        case "number" | "number_from_1":
            if not label.strip().isdecimal():
                return None
            return int(label) - (task.answer == "number_from_1")


def _references(
    document: Document, task: GenerationTaskConfig, values: dict[str, str]
) -> tuple[str, ...]:
    if "{answers}" not in task.target:
        target = fill_template(task.target, values)
        if not target.strip():
            raise _NoQuestion("an empty answer")
        return tuple(dict.fromkeys((target, *document.references)))
    answers = dict.fromkeys(text for _, text in document.answers)
    filled = (
        fill_template(task.target, {**values, "answers": text})
        for text in answers or (task.no_answer,)
    )
    return tuple(filled)
