"""Choices by likelihood: the answer is the choice that the model finds most likely."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.task_file import ChoiceTaskConfig
from transbeam.pipeline.accounting.document_accounting import list_reasons
from transbeam.trainer.metrics.choice_ranking import ChoiceAccuracy, rank_choices
from transbeam.trainer.metrics.confidence_intervals import intervals
from transbeam.trainer.tasks.asked_questions import list_origins
from transbeam.trainer.tasks.contexts import Context, ContextBuilder
from transbeam.trainer.tasks.continuation_scorer import (
    Continuations,
    ContinuationScorer,
)
from transbeam.trainer.tasks.questions import Question
from transbeam.trainer.tasks.task_results import TaskContext, TaskResult, shots_title


def evaluate_choices(
    context: TaskContext,
    task: ChoiceTaskConfig,
    shots: Sequence[int],
    scorer: ContinuationScorer,
) -> Iterator[TaskResult]:
    """Evaluates a task with each number of shots.

    Args:
        context: The model and its tokenizer.
        task: The task.
        shots: The numbers of shots.
        scorer: The scorer of the model.

    Yields:
        The result with each number of shots.

    Raises:
        DataError: A source cannot be read, or no question can be scored.
    """
    read = context.ask(task, max(shots))
    builder, left_out = context.context_builder(task), read.left_out.copy()
    joined: Counter[str] = Counter()
    rows = _scorable(builder, task, read.questions, left_out, joined)
    questions = [question for question, _ in rows]
    unconditional = _unconditional(context, task, rows, builder, scorer)
    for count in shots:
        start, notes = time.monotonic(), joined.copy()
        drawn = [read.pool.draw(question, count) for question in questions]
        rooms = [context.context_room(max(map(len, ids))) for _, ids in rows]
        contexts = builder.contexts(questions, drawn, rooms, notes)
        requests = [
            Continuations(before.token_ids, answers)
            for before, (_, answers) in zip(contexts, rows, strict=True)
        ]
        label = f"{task.name}, {shots_title(count)}"
        with context.console.progress(label, len(requests), "questions") as progress:
            scores = scorer.score(requests, progress)
        chosen = [
            rank_choices(
                of, question.answers, list(map(len, ids)), unconditional.get(_key(ids))
            )
            for of, (question, ids) in zip(scores, rows, strict=True)
        ]
        right = [question.right for question in questions]
        metric = ChoiceAccuracy(tuple(chosen[0]))
        yield TaskResult(
            task=task.name,
            kind=task.kind,
            shots=count,
            units=len(questions),
            scores=intervals(
                metric.statistics(chosen, right), metric.scores, context.seed
            ),
            baselines=_baselines(task, questions),
            left_out=left_out,
            notes=notes,
            answers=[
                _row(*values)
                for values in zip(questions, contexts, scores, chosen, strict=True)
            ],
            seconds=time.monotonic() - start,
        )


_Answers = tuple[np.ndarray, ...]


def _scorable(
    builder: ContextBuilder,
    task: ChoiceTaskConfig,
    questions: Sequence[Question],
    left_out: Counter[str],
    notes: Counter[str],
) -> list[tuple[Question, _Answers]]:
    """Returns the questions whose choices can be scored, with the choices' ids."""
    rows = []
    for question, ids in zip(
        questions, builder.answer_ids(questions, notes), strict=True
    ):
        if isinstance(ids, str):
            left_out[ids] += 1
        else:
            rows.append((question, ids))
    if not rows:
        raise DataError(
            f"task {task.name!r}: no question can be scored: {list_reasons(left_out)}"
        )
    return rows


def _unconditional(
    context: TaskContext,
    task: ChoiceTaskConfig,
    rows: Sequence[tuple[Question, _Answers]],
    builder: ContextBuilder,
    scorer: ContinuationScorer,
) -> dict[bytes, np.ndarray]:
    """Scores different choices once after the prompt without a question, by `_key`."""
    prompt = task.unconditional_prompt
    if prompt is None:
        return {}
    different = {_key(ids): ids for _, ids in rows}
    longest = max(len(text) for ids in different.values() for text in ids)
    question = Question("", 0, prompt, ())
    notes: Counter[str] = Counter()
    room = context.context_room(longest)
    (before,) = builder.contexts([question], [[]], [room], notes)
    requests = [Continuations(before.token_ids, ids) for ids in different.values()]
    label = f"{task.name}, without question"
    with context.console.progress(label, len(requests), "choices") as progress:
        scores = scorer.score(requests, progress)
    return dict(zip(different, scores, strict=True))


def _key(ids: _Answers) -> bytes:
    return b"".join(len(text).to_bytes(4, "little") + text.tobytes() for text in ids)


def _baselines(
    task: ChoiceTaskConfig, questions: Sequence[Question]
) -> dict[str, float]:
    """Accuracies of a random choice, and of always the most frequent label."""
    found = {"chance": float(np.mean([1 / len(q.answers) for q in questions]))}
    if task.choices:
        frequent = Counter(question.right for question in questions).most_common(1)
        found["most_frequent"] = frequent[0][1] / len(questions)
    return found


def _row(
    question: Question,
    context: Context,
    scores: np.ndarray,
    chosen: dict[str, int],
) -> dict[str, Any]:
    return {
        "source": question.source,
        "offset": question.offset,
        "prompt": question.prompt,
        "choices": list(question.answers),
        "right": question.right,
        "log_likelihoods": [round(score, 6) for score in scores.tolist()],
        "chosen": chosen,
        "shots": list_origins(context.shots),
    }
