"""Sample predictions on the first records of the validation split.

The examples of an evaluation are a model's worst ones; sample predictions show typical
ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import keras
import numpy as np

from transbeam.configs.cli.progress import SilentBar
from transbeam.configs.schema.generation import GenerationConfig, SampleConfig
from transbeam.configs.schema.objectives.language_modeling import CausalConfig
from transbeam.configs.schema.objectives.objective import (
    AnswerObjective,
    SpanObjective,
)
from transbeam.model.generation.generate import generate
from transbeam.model.generation.keras_decode_functions import decoder_steps
from transbeam.model.generation.ragged import unpad
from transbeam.trainer.evaluation.batch_generate import write_answers
from transbeam.trainer.evaluation.collectors import (
    EvaluatedRecord,
    make_evaluated_record,
)
from transbeam.trainer.evaluation.evaluation_context import EvaluationContext
from transbeam.trainer.evaluation.evaluation_loop import on_host
from transbeam.trainer.evaluation.examples import (
    Example,
    decoded,
    make_example,
    record_examples,
)
from transbeam.trainer.evaluation.generation_eval import (
    build_unpacked,
    texts_and_references,
)
from transbeam.trainer.evaluation.span_qa import (
    answer_texts,
    best_of_windows,
    make_span_outputs,
    read_windows,
    right_answers,
)
from transbeam.trainer.input.batches import validation_batches
from transbeam.trainer.objectives.objective_metrics import Answers, Batch
from transbeam.trainer.objectives.targets import Target

_PROMPT = 16  # tokens of a prompt
_WRITTEN = 48  # generated tokens


@dataclass
class FirstRows:
    """Collects the first records of an evaluation.

    Attributes:
        target: The target.
        most: Number of records to keep.
        rows: The kept records.
    """

    target: Target
    most: int
    rows: list[EvaluatedRecord] = field(default_factory=list)

    def __call__(self, answers: Answers, batch: Batch) -> None:
        here = len(answers[self.target.output]["cost"])
        before = len(self.rows)
        for row in range(min(here, self.most - before)):
            self.rows.append(
                make_evaluated_record(self.target, before + row, row, answers, batch)
            )


def samples(
    context: EvaluationContext, rows: Sequence[EvaluatedRecord]
) -> list[Example]:
    """Builds examples of a few documents, with targets and predictions.

    Args:
        context: The model and its validation split.
        rows: The first records of the split.

    Returns:
        For supervised tasks, predictions or generated outputs; for a causal model,
        continuations of the records' beginnings; for other language models, top-1
        predictions of tokens.
    """
    objective = context.config.objective
    if isinstance(objective, AnswerObjective):
        return _written(context, len(rows))
    if isinstance(objective, SpanObjective):
        return _answered(context, len(rows))
    if isinstance(objective, CausalConfig) and (found := _continued(context, rows)):
        return found
    return record_examples(context, rows)


def _unpacked(context: EvaluationContext) -> keras.Model:
    assert context.model is not None
    size = context.tokenizer.vocabulary_size
    return build_unpacked(context.config, context.model, size)


def _continued(
    context: EvaluationContext, rows: Sequence[EvaluatedRecord]
) -> list[Example]:
    """Continuations of prompts; none if the model has no cache or records are short."""
    rows = [row for row in rows if len(row.tokens) > _PROMPT]
    most = min(_WRITTEN, context.config.model.max_sequence_length - _PROMPT)
    if not rows or most < 1:
        return []
    end = context.tokenizer.special.end
    config = GenerationConfig(
        method=SampleConfig(temperature=0.8, top_k=40),
        max_new_tokens=most,
        stop_token_ids=context.tokenizer.special.ends,
    )
    prompts = np.stack([row.tokens[:_PROMPT] for row in rows]).astype(np.int32)
    try:
        steps = decoder_steps(_unpacked(context))
    except ValueError:  # an attention without a cache
        return []
    seeds = np.arange(len(rows), dtype=np.int32) + context.config.seed
    found = generate(steps, prompts, config=config, seeds=seeds)
    new, lengths = (
        keras.ops.convert_to_numpy(found[name]) for name in ("token_ids", "lengths")
    )
    documents, tokenizer = context.document_index().first_document(), context.tokenizer
    return [
        make_example(
            context.held_out,
            int(documents[row.number]),
            None,
            text=decoded(row.tokens[:_PROMPT], tokenizer),
            target=decoded(_to(end, row.tokens[_PROMPT : _PROMPT + most]), tokenizer),
            guess=decoded(_to(end, np.asarray(written)), tokenizer),
        )
        for row, written in zip(rows, unpad(new, lengths), strict=True)
    ]


def _to(end: int | None, tokens: np.ndarray) -> np.ndarray:
    """The tokens before the first end token."""
    return tokens[: np.argmax(tokens == end)] if end in tokens else tokens


def _written(context: EvaluationContext, count: int) -> list[Example]:
    """The first texts with their generated outputs."""
    texts, references = (
        column[:count]
        for column in texts_and_references(
            context.config, context.held_out, context.tokenizer
        )
    )
    answers = write_answers(
        texts, _unpacked(context), context.tokenizer, context.config, SilentBar()
    )
    return [
        make_example(
            context.held_out,
            number,
            None,
            text=text.decode("utf-8"),
            target=reference.decode("utf-8"),
            guess=answer,
        )
        for number, (text, reference, answer) in enumerate(
            zip(texts, references, answers, strict=True)
        )
    ]


def _answered(context: EvaluationContext, count: int) -> list[Example]:
    """The first questions with predicted answers, from the windows of one batch."""
    config, held_out = context.config, context.held_out
    batch = validation_batches(context.manifest, config.training.batch_size).take(1)
    assert context.model is not None
    windows = read_windows(
        make_span_outputs(context.model),
        on_host(batch),
        config.evaluation.max_answer_length,
    )
    documents = context.document_index().first_document()[: len(windows.score)]
    numbers, question = np.unique(documents, return_inverse=True)
    shown = [held_out.one(number) for number in numbers.tolist()]
    found = best_of_windows(windows, question, len(numbers))
    golds = [right_answers(one) for one in shown]
    spans = found.spans(None if all(golds) else 0.0)
    answers = answer_texts([one["text"] for one in shown], *spans, context.tokenizer)
    return [
        make_example(
            held_out,
            number,
            None,
            target=" | ".join(gold),
            guess=answer,
        )
        for number, gold, answer in zip(numbers.tolist(), golds, answers, strict=True)
    ][:count]
