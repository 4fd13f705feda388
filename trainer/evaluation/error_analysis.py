"""Error analysis of each objective: worst examples, confusions, scores of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.objectives.objective import (
    AnswerObjective,
    ChoiceObjective,
    EmbeddingObjective,
    FillsObjective,
    PooledObjective,
    Seq2SeqObjective,
    SpanObjective,
    TextObjective,
    TokenChoiceObjective,
    WordsObjective,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.calibration.threshold_comparison import AnswerStatistics
from transbeam.trainer.evaluation.collectors import (
    Confusions,
    CostsByDocument,
    WorstRows,
)
from transbeam.trainer.evaluation.evaluate_export import outputs_by, written_by_export
from transbeam.trainer.evaluation.evaluation_context import (
    DocumentIndex,
    EvaluationContext,
)
from transbeam.trainer.evaluation.evaluation_loop import Collector, on_host
from transbeam.trainer.evaluation.examples import (
    Example,
    question_examples,
    record_examples,
    written_examples,
)
from transbeam.trainer.evaluation.generation_eval import (
    Answered,
    answer,
    extracts_answers,
    score_answers,
    writes_answers,
    written_by_model,
)
from transbeam.trainer.evaluation.part_scores import (
    PartScores,
    named_parts,
    score_parts,
)
from transbeam.trainer.evaluation.span_qa import (
    all_right_answers,
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
class ErrorAnalysis:
    """Results of the error analysis.

    Attributes:
        scores: Scores of generated texts or extracted answers, besides the metrics of
            the targets.
        examples: The model's worst examples.
        confusions: The confusion matrix of classes or tags.
        answered: The texts that the model generated, or extracted.
        answers: Statistics of the answers to questions.
        parts: Scores of the generated texts of each named part of a mixture.
    """

    scores: Mapping[str, Interval] = field(default_factory=dict)
    examples: Sequence[Example] = ()
    confusions: Confusions | None = None
    answered: Answered | None = None
    answers: AnswerStatistics | None = None
    parts: Mapping[str, PartScores] = field(default_factory=dict)


def make_collectors(config: RunConfig) -> tuple[Collector, ...]:
    """Builds the collectors of an objective, for `analyze_errors`."""
    targets, most = make_targets(config.objective), config.evaluation.errors
    objective = config.objective
    if isinstance(objective, AnswerObjective):
        side = "decoder_" if isinstance(objective, Seq2SeqObjective) else ""
        return (CostsByDocument(targets, f"{side}document_ids"),)
    if isinstance(objective, SpanObjective):
        return (CostsByDocument(targets),)
    if isinstance(objective, FillsObjective | TextObjective | SentencePairsConfig):
        return (WorstRows(targets[0], most, wrong_only=False, per_target=True),)
    worst = WorstRows(targets[0], most, wrong_only=targets[0].metric_name == "correct")
    if isinstance(objective, ChoiceObjective | TokenChoiceObjective):
        return Confusions(targets[0], objective.labels), worst
    if isinstance(objective, PooledObjective | WordsObjective | EmbeddingObjective):
        return (worst,)
    assert_never(objective)


def analyze_errors(
    context: EvaluationContext, collectors: Sequence[Collector]
) -> ErrorAnalysis:
    """Builds examples and further scores from the collectors.

    Args:
        context: The evaluated model and records.
        collectors: The collectors of `make_collectors`, after all batches.
    """
    match collectors:
        case (Confusions() as table, WorstRows(rows=rows)):
            return ErrorAnalysis(
                examples=record_examples(context, rows), confusions=table
            )
        case (WorstRows(rows=rows),):
            return ErrorAnalysis(examples=record_examples(context, rows))
        case (CostsByDocument() as costs,):
            index = context.document_index()
            each = costs.select(index.row, index.ordinal)
            nats = np.bincount(index.document, each, len(context.held_out))
            if isinstance(context.config.objective, SpanObjective):
                return _analyze_questions(context, index, nats)
            return _analyze_texts(context, nats)
        case _:
            raise ValueError(f"{collectors}: not those of `make_collectors`")


def _analyze_texts(context: EvaluationContext, nats: np.ndarray) -> ErrorAnalysis:
    config = context.config
    if not writes_answers(config):
        return ErrorAnalysis()
    if context.export is not None:
        write = written_by_export(context.export, config, context.held_out)
    else:
        assert context.model is not None
        write = written_by_model(config, context.model, context.tokenizer)
    held_out = context.held_out
    answered = answer(config, held_out, context.tokenizer, write, context.console)
    examples = written_examples(answered, nats, held_out, config.evaluation.errors)
    part_of = named_parts(config, held_out, context.manifest)
    parts = score_parts(answered, part_of, config)
    return ErrorAnalysis(answered.scores, examples, answered=answered, parts=parts)


def _analyze_questions(
    context: EvaluationContext, index: DocumentIndex, nats: np.ndarray
) -> ErrorAnalysis:
    config, held_out = context.config, context.held_out
    batches = validation_batches(context.manifest, config.training.batch_size)
    if context.export is not None:
        outputs = outputs_by(context.export, config, context.tokenizer.vocabulary_size)
    else:
        assert context.model is not None
        outputs = make_span_outputs(context.model)
    windows = read_windows(
        outputs, on_host(batches), config.evaluation.max_answer_length
    )
    golds = all_right_answers(held_out)
    best = best_of_windows(windows, index.first_document(), len(held_out))
    texts = answer_texts(held_out.texts(), *best.spans(None), context.tokenizer)
    metric = SpanAnswerScores()
    threshold = None if all(golds) else 0.0
    answers = AnswerStatistics(
        metric.statistics(texts, golds),
        metric.statistics([""] * len(texts), golds),
        best.difference,
        threshold,
    )
    statistics = answers.at(threshold)
    scores = intervals(statistics, metric.scores, config.seed)
    right, most = statistics[:, 0] > 0, config.evaluation.errors
    is_answered = best.spans(threshold)[0] >= 0
    predicted = [t if has else "" for t, has in zip(texts, is_answered, strict=True)]
    examples = question_examples(predicted, golds, right, nats, held_out, most)
    if not extracts_answers(config):
        return ErrorAnalysis(scores, examples, answers=answers)
    answered = score_answers(config, held_out, held_out.texts(), predicted, golds)
    scores = {**answered.scores, **scores}
    return ErrorAnalysis(scores, examples, answered=answered, answers=answers)
