"""Error analysis of each objective: worst examples, confusions, scores of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    ChoiceObjective,
    FillsObjective,
    PooledObjective,
    SpanObjective,
    TextObjective,
    TextPairObjective,
    TokenChoiceObjective,
    WordsObjective,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.evaluation.collectors import (
    Confusions,
    CostsByDocument,
    WorstRows,
)
from transbeam.trainer.evaluation.document_index import DocumentIndex
from transbeam.trainer.evaluation.evaluate_export import outputs_by, written_by_export
from transbeam.trainer.evaluation.evaluation_context import EvaluationContext
from transbeam.trainer.evaluation.evaluation_loop import Watcher, on_host
from transbeam.trainer.evaluation.examples import (
    Example,
    question_examples,
    record_examples,
    written_examples,
)
from transbeam.trainer.evaluation.generation_eval import (
    Answered,
    answer,
    writes_answers,
    written_by_model,
)
from transbeam.trainer.evaluation.span_qa import (
    answer_texts,
    best_of_windows,
    make_span_outputs,
    read_windows,
)
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.squad import SpanAnswerScores
from transbeam.trainer.objectives.targets import make_targets


@dataclass(frozen=True)
class Findings:
    """Results of the error analysis.

    Attributes:
        scores: Scores beside those of the targets.
        examples: The model's worst examples.
        confusions: The confusion matrix of classes or tags.
        answered: The texts that the model generated.
    """

    scores: Mapping[str, Interval] = field(default_factory=dict)
    examples: Sequence[Example] = ()
    confusions: Confusions | None = None
    answered: Answered | None = None


def make_watchers(config: RunConfig) -> tuple[Watcher, ...]:
    """Builds the collectors of an objective, which `find_out` reads afterwards."""
    asks, most = make_targets(config.objective), config.evaluation.errors
    objective = config.objective
    if isinstance(objective, TextPairObjective):
        return (CostsByDocument(asks, "decoder_document_ids"),)
    if isinstance(objective, SpanObjective):
        return (CostsByDocument(asks),)
    if isinstance(objective, FillsObjective | TextObjective | SentencePairsConfig):
        return (WorstRows(asks[0], most, wrong_only=False, per_target=True),)
    worst = WorstRows(asks[0], most, wrong_only=asks[0].judged == "correct")
    if isinstance(objective, ChoiceObjective | TokenChoiceObjective):
        return Confusions(asks[0], objective.labels), worst
    if isinstance(objective, PooledObjective | WordsObjective):
        return (worst,)
    assert_never(objective)


def find_out(subject: EvaluationContext, watchers: Sequence[Watcher]) -> Findings:
    """Builds examples and further scores from the collectors.

    Args:
        subject: The evaluated model and records.
        watchers: The collectors of `make_watchers`, after all batches.
    """
    match watchers:
        case (Confusions() as table, WorstRows(rows=rows)):
            return Findings(examples=record_examples(subject, rows), confusions=table)
        case (WorstRows(rows=rows),):
            return Findings(examples=record_examples(subject, rows))
        case (CostsByDocument() as costs,):
            places = subject.places()
            each = costs.select(places.row, places.ordinal)
            nats = np.bincount(places.document, each, len(subject.held_out))
            if isinstance(subject.config.objective, SpanObjective):
                return _questions(subject, places, nats)
            return _written(subject, nats)
        case _:
            raise ValueError(f"{watchers}: not those of watchers_of")


def _written(subject: EvaluationContext, nats: np.ndarray) -> Findings:
    config = subject.config
    if not writes_answers(config):
        return Findings()
    if subject.export is not None:
        write = written_by_export(subject.export, config, subject.held_out)
    else:
        assert subject.model is not None
        write = written_by_model(config, subject.model, subject.tokenizer)
    answered = answer(config, subject.held_out, write, subject.console)
    most = config.evaluation.errors
    examples = written_examples(answered, nats, subject.held_out, most)
    return Findings(answered.scores, examples, answered=answered)


def _questions(
    subject: EvaluationContext, places: DocumentIndex, nats: np.ndarray
) -> Findings:
    config, held_out = subject.config, subject.held_out
    batches = validation_batches(subject.manifest, config.training.batch_size)
    if subject.export is not None:
        size = subject.tokenizer.vocabulary_size
        outputs = outputs_by(subject.export, config, size)
    else:
        assert subject.model is not None
        outputs = make_span_outputs(subject.model)
    windows = read_windows(
        outputs, on_host(batches), config.evaluation.max_answer_length
    )
    golds = [[a["text"] for a in answers] for answers in held_out.values("answers")]
    first, last = best_of_windows(
        windows,
        places.first_document(),
        len(held_out),
        may_be_none=not all(golds),
    )
    said = answer_texts(held_out.texts(), first, last, subject.tokenizer)
    metric = SpanAnswerScores()
    statistics = metric.statistics(said, golds)
    scores = intervals(statistics, metric.scores, config.seed)
    right = statistics[:, 0] > 0
    most = config.evaluation.errors
    return Findings(scores, question_examples(said, right, nats, held_out, most))
