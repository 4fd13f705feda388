"""Answers that the model writes after the prompt, compared with the right ones."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.generation import GenerationConfig
from transbeam.configs.schema.task_file import GenerationTaskConfig
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.pipeline.records.token_rows import split_rows
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.batch_generate import (
    Prompts,
    decode_answers,
    decoder_writer,
    generate_rows,
    seq2seq_writer,
)
from transbeam.trainer.evaluation.generation_eval import text_scores
from transbeam.trainer.metrics.confidence_intervals import Interval, intervals
from transbeam.trainer.metrics.squad import SpanAnswerScores
from transbeam.trainer.tasks.asked_questions import list_origins
from transbeam.trainer.tasks.contexts import Context
from transbeam.trainer.tasks.questions import Question
from transbeam.trainer.tasks.task_results import TaskContext, TaskResult, shots_title


def evaluate_generation(
    context: TaskContext, task: GenerationTaskConfig, shots: Sequence[int]
) -> Iterator[TaskResult]:
    """Evaluates a task with each number of shots.

    Args:
        context: The model and its tokenizer.
        task: The task.
        shots: The numbers of shots.

    Yields:
        The result with each number of shots.

    Raises:
        DataError: A source cannot be read, no question can be asked, or the model reads
            no more tokens than an answer may have.
    """
    if task.max_new_tokens >= context.max_length:
        raise DataError(
            f"task {task.name!r}: max_new_tokens={task.max_new_tokens} leaves no room "
            f"for a prompt: the model reads {context.max_length} tokens. Lower it"
        )
    room = context.context_room(task.max_new_tokens + 1)
    read = context.ask(task, max(shots))
    builder, left_out = context.context_builder(task), read.left_out.copy()
    questions = []
    for question in read.questions:
        problem = builder.prompts.problem(question)
        if problem is None:
            questions.append(question)
        else:
            left_out[problem] += 1
    if not questions:
        raise DataError(
            f"task {task.name!r}: no question can be asked: {list_reasons(left_out)}"
        )
    special = context.tokenizer.special
    settings = GenerationConfig(
        max_new_tokens=task.max_new_tokens,
        stop_token_ids=tuple(
            {*special.ends, *stopping_tokens(context.tokenizer, task.stop)}
        ),
        pad_token_id=special.pad,
    )
    if context.has_encoder:
        write = seq2seq_writer(context.model, settings, special.decoder_begin)
    else:
        write = decoder_writer(context.model, settings)
    for count in shots:
        start, notes = time.monotonic(), Counter[str]()
        drawn = [read.pool.draw(question, count) for question in questions]
        contexts = builder.contexts(questions, drawn, [room] * len(questions), notes)
        ids = [before.token_ids for before in contexts]
        rows = split_rows(np.concatenate(ids), np.array(list(map(len, ids))))
        label = f"{task.name}, {shots_title(count)}"
        with context.console.progress(label, len(questions), "questions") as progress:
            new = generate_rows(
                Prompts(rows, room, special.pad, pad_left=not context.has_encoder),
                write,
                context.seed,
                progress,
            )
        written = decode_answers(new, context.tokenizer)
        answers = [cut_at_stop(text, task.stop).strip() for text in written]
        yield TaskResult(
            task=task.name,
            kind=task.kind,
            shots=count,
            units=len(questions),
            scores=score_answers(task, questions, answers, context.seed),
            left_out=left_out,
            notes=notes,
            answers=[
                _row(*values)
                for values in zip(questions, contexts, answers, strict=True)
            ],
            seconds=time.monotonic() - start,
        )


def stopping_tokens(tokenizer: Tokenizer, stops: Sequence[str]) -> list[int]:
    """Returns the ids of all tokens with a stop string in their own text.

    An answer that goes on after such a token would be cut in any case. A stop string
    that spans tokens is found in the text of the whole answer.
    """
    ids = tokenizer.ordinary_ids
    ragged: Any = tf.RaggedTensor
    rows = ragged.from_row_lengths(ids, np.ones(len(ids), np.int64))
    texts = tokenizer.detokenize(rows).numpy().tolist()
    wanted = [stop.encode("utf-8") for stop in stops]
    return [
        token
        for token, text in zip(ids.tolist(), texts, strict=True)
        if any(stop in text for stop in wanted)
    ]


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    r"""Returns a text up to the first stop string in it.

    Example:
    >>> cut_at_stop("42\nQ: and", ["\n", "Q:"])
    '42'
    """
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def score_answers(
    task: GenerationTaskConfig,
    questions: Sequence[Question],
    answers: Sequence[str],
    seed: int,
) -> dict[str, Interval]:
    """Compares answers with the right ones, each score with a 95% interval.

    Args:
        task: The task.
        questions: The questions.
        answers: The written answer to each question.
        seed: Seed of the bootstrap.
    """
    if "{answers}" not in task.target:
        targets = [question.answers for question in questions]
        return text_scores(answers, targets, task.scores, seed)
    metric = SpanAnswerScores()
    # In SQuAD an empty answer means that there is none.
    given = ["" if answer == task.no_answer else answer for answer in answers]
    golds = [
        [answer for answer in question.answers if answer != task.no_answer]
        for question in questions
    ]
    return intervals(metric.statistics(given, golds), metric.scores, seed)


def _row(question: Question, context: Context, answer: str) -> dict[str, Any]:
    return {
        "source": question.source,
        "offset": question.offset,
        "prompt": question.prompt,
        "targets": list(question.answers),
        "answer": answer,
        "shots": list_origins(context.shots),
    }
