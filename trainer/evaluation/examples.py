"""Readable examples of predictions, such as the worst ones of an evaluation."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import assert_never

import numpy as np
import tensorflow as tf

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    EmbeddingObjective,
    FillsObjective,
    LabelSetObjective,
    NumberObjective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
)
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.collectors import EvaluatedRecord
from transbeam.trainer.evaluation.evaluation_context import (
    DocumentIndex,
    EvaluationContext,
)
from transbeam.trainer.evaluation.generation_eval import Answered

_TARGETS_SHOWN = 12


@dataclass(frozen=True)
class Example:
    """An input with its target and prediction.

    Attributes:
        source: The source file of the document, or of the first document of a packed
            record.
        offset: The document's offset in the file.
        nats: Summed loss of the targets, or for a language model the mean per target;
            None for regression and for examples that are shown without a loss.
        text: The model's input; empty for an image.
        second_text: The second text of a pair, or the question.
        target: The target, as text.
        guess: The prediction, as text.
        document: The document's number in the split.
        error: For regression, prediction minus target; else None.
    """

    source: str
    offset: int
    nats: float | None
    text: str
    target: str
    guess: str
    document: int
    second_text: str = ""
    error: float | None = None


def save_examples(path: Path, examples: Sequence[Example]) -> None:
    """Writes a line of JSON per example."""
    lines = []
    for example in examples:
        values = {
            name: value
            for name, value in asdict(example).items()
            if name != "document" and value is not None
        }
        if not example.second_text:
            del values["second_text"]
        lines.append(json.dumps(values, ensure_ascii=False) + "\n")
    write_atomically(path, "".join(lines))


def record_examples(
    context: EvaluationContext, rows: Sequence[EvaluatedRecord]
) -> list[Example]:
    """Makes examples for an objective whose records are evaluated one by one.

    Args:
        context: The evaluated model and records.
        rows: Records with the model's predictions.

    Raises:
        ValueError: The objective combines the predictions of several records for each
            document.
    """
    objective, held_out = context.config.objective, context.held_out
    index = context.document_index()
    if isinstance(objective, FillsObjective | TextObjective | SentencePairsConfig):
        return token_examples(rows, index, held_out, context.tokenizer)
    if isinstance(objective, ChoiceObjective | TokenChoiceObjective):
        return class_examples(rows, index, held_out, objective.labels)
    if isinstance(objective, LabelSetObjective):
        return label_set_examples(rows, index, held_out, objective.labels)
    if isinstance(objective, NumberObjective):
        return number_examples(rows, index, held_out)
    if isinstance(objective, EmbeddingObjective):
        return pair_examples(rows, index, held_out)
    if isinstance(objective, SpanObjective):
        raise ValueError("answers to questions are read from all windows of a text")
    assert_never(objective)


def class_examples(
    rows: Iterable[EvaluatedRecord],
    index: DocumentIndex,
    held_out: ValidationDocuments,
    labels: Sequence[str],
) -> list[Example]:
    """Examples of classification or tagging; `labels` are the names of the classes."""
    return [
        make_example(
            held_out,
            number := int(index.first_document()[row.number]),
            row.cost,
            target=_labels(row.targets, labels, held_out.one(number)["words"]),
            guess=_labels(row.guesses, labels, held_out.one(number)["words"]),
        )
        for row in rows
    ]


def label_set_examples(
    rows: Iterable[EvaluatedRecord],
    index: DocumentIndex,
    held_out: ValidationDocuments,
    labels: Sequence[str],
) -> list[Example]:
    """Examples of multi-label classification, with comma-separated labels."""
    names = np.array(labels, object)
    return [
        make_example(
            held_out,
            int(index.first_document()[row.number]),
            row.cost,
            target=", ".join(names[row.targets > 0]),
            guess=", ".join(names[row.guesses > 0]),
        )
        for row in rows
    ]


def number_examples(
    rows: Iterable[EvaluatedRecord], index: DocumentIndex, held_out: ValidationDocuments
) -> list[Example]:
    """Examples of regression, with the target as written in the corpus."""
    examples = []
    for row in rows:
        number = int(index.first_document()[row.number])
        (target,), (guess,) = row.targets.tolist(), row.guesses.tolist()
        example = make_example(
            held_out,
            number,
            None,
            target=held_out.one(number)["label"],
            guess=f"{guess:.6g}",
        )
        examples.append(replace(example, error=guess - target))
    return examples


def pair_examples(
    rows: Iterable[EvaluatedRecord], index: DocumentIndex, held_out: ValidationDocuments
) -> list[Example]:
    """Examples of contrastive learning: a pair, and the rank of its second text."""
    return [
        make_example(
            held_out,
            int(index.first_document()[row.number]),
            row.cost,
            target=f"rank {row.targets[0]}",
            guess=f"rank {row.guesses[0]}",
        )
        for row in rows
    ]


def _labels(ids: np.ndarray, labels: Sequence[str], words: Sequence[str]) -> str:
    """Joins the label names of ids, as `word/label` pairs if each word has a label."""
    names = [labels[int(i)] for i in ids]
    if len(names) == len(words):
        names = [f"{word}/{name}" for word, name in zip(words, names, strict=True)]
    return " ".join(names)


def token_examples(
    rows: Iterable[EvaluatedRecord],
    index: DocumentIndex,
    held_out: ValidationDocuments,
    tokenizer: Tokenizer,
) -> list[Example]:
    """Examples of a language model: the tokens with the highest loss of each record."""
    examples = []
    for row in rows:
        worst = np.sort(np.argsort(-row.costs, kind="stable")[:_TARGETS_SHOWN])
        target, guess = (
            " ".join(tokenizer.pieces[token] for token in ids[worst])
            for ids in (row.targets, row.guesses)
        )
        examples.append(
            make_example(
                held_out,
                int(index.first_document()[row.number]),
                row.cost_per_target,
                target=target,
                guess=guess,
                text=decoded(row.tokens, tokenizer),
            )
        )
    return examples


def decoded(ids: np.ndarray, tokenizer: Tokenizer) -> str:
    """Decodes ids to text, with special pieces."""
    ragged = tf.ragged.constant([ids.tolist()], dtype=tf.int32, ragged_rank=1)
    (text,) = tokenizer.detokenize(ragged).numpy()
    return text.decode("utf-8", "replace")


def written_examples(
    answered: Answered, nats: np.ndarray, held_out: ValidationDocuments, most: int
) -> list[Example]:
    """Documents whose generated text is not the reference, the highest loss first.

    Args:
        answered: The texts generated for the first documents of the split.
        nats: float (N,). The loss of each document's reference.
        held_out: The documents.
        most: Largest number of examples.
    """
    order: list[int] = np.argsort(
        -nats[: len(answered.answers)], kind="stable"
    ).tolist()
    wrong = [n for n in order if answered.answers[n] not in answered.references[n]]
    return [
        make_example(
            held_out,
            number,
            float(nats[number]),
            target=" | ".join(answered.references[number]),
            guess=answered.answers[number],
            text=answered.texts[number],
        )
        for number in wrong[:most]
    ]


def question_examples(
    answers: Sequence[str],
    golds: Sequence[Sequence[str]],
    right: np.ndarray,
    nats: np.ndarray,
    held_out: ValidationDocuments,
    most: int,
) -> list[Example]:
    """Questions that were answered incorrectly, the highest loss first.

    Args:
        answers: The predicted answer to every question.
        golds: The correct answers to every question.
        right: bool (N,). True where the answer is an exact match.
        nats: float (N,). The loss of the correct positions, summed over all windows.
        held_out: The questions.
        most: Largest number of examples.
    """
    order = np.argsort(-nats, kind="stable")
    wrong: list[int] = order[~right[order]][:most].tolist()
    return [
        make_example(
            held_out,
            number,
            float(nats[number]),
            target=" | ".join(golds[number]),
            guess=answers[number],
        )
        for number in wrong
    ]


def make_example(
    held_out: ValidationDocuments,
    number: int,
    nats: float | None,
    *,
    target: str,
    guess: str,
    text: str | None = None,
) -> Example:
    """Builds the example of a document.

    Args:
        held_out: All documents.
        number: The document's number.
        nats: The loss of the document's targets; None if the example is shown without a
            loss.
        target: The target, as text.
        guess: The prediction, as text.
        text: The model's input; the document's text if left out.
    """
    document = held_out.one(number)
    return Example(
        source=document["source"],
        offset=document["offset"],
        nats=nats,
        text=document["text"].decode("utf-8") if text is None else text,
        target=target,
        guess=guess,
        document=number,
        second_text=document["second_text"].decode("utf-8"),
    )
