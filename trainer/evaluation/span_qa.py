"""Answers to questions as texts: the best span over all windows of a question.

A window gives each of its places a score as the answer's first token and as its last.
The best pair of them, not too far apart, of the best window is the answer
([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), 4.2 and 4.3); the place 0, of
the piece before the question, stands for none. Tokens are then led back to the
characters of the text.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.exported_signature import Outputs
from transbeam.trainer.evaluation.token_byte_spans import token_spans
from transbeam.trainer.objectives.objective_metrics import Batch
from transbeam.trainer.step.batch import inputs_of

_TEXTS_KEPT = 16


@dataclass(frozen=True)
class AnswerWindows:
    """What a model says of windows; all arrays (R,).

    Attributes:
        first: int64. The best answer's first token, by its place in the whole text.
        last: int64. Its last token.
        score: float64. The two scores added.
        none: float64. The same of no answer.
    """

    first: np.ndarray
    last: np.ndarray
    score: np.ndarray
    none: np.ndarray


def outputs_of(model: keras.Model) -> Outputs:
    """What a model on packed records gives for a batch of them."""
    return lambda batch: model.predict_on_batch(inputs_of(model, batch))


def read_windows(
    outputs: Outputs, batches: Iterable[Batch], max_length: int
) -> AnswerWindows:
    """Asks a model about windows, and finds the best answer in each.

    Args:
        outputs: Of the model of a run with objective.kind=span_qa.
        batches: Its records.
        max_length: Tokens of an answer at most.
    """
    found: list[tuple[np.ndarray, ...]] = []
    for batch in batches:
        said = outputs(batch)
        start, end = (
            np.asarray(said[name], np.float64)
            for name in ("start_logits", "end_logits")
        )
        # The context, without the piece that ends it.
        place = np.arange(start.shape[1])
        inside = batch["segment_ids"] == 1
        last = np.where(inside, place, 0).max(axis=1, keepdims=True)
        inside = inside & (place < last)
        begins, ends, score = best_spans(start, end, inside, max_length)
        to_text = batch["context_start"] - np.argmax(inside, axis=1)
        none = start[:, 0] + end[:, 0]
        found.append((begins + to_text, ends + to_text, score, none))
    return AnswerWindows(*map(np.concatenate, zip(*found, strict=True)))


def best_spans(
    start: np.ndarray, end: np.ndarray, inside: np.ndarray, max_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best span of each row that lies inside and is not too long.

    Args:
        start: float (R, T). What speaks for a place as the first one.
        end: float (R, T). As the last one.
        inside: bool (R, T). Where a span may lie; one stretch, not empty.
        max_length: Places of a span at most.

    Returns:
        int64 (R,), int64 (R,) and float (R,): first and last place, and their scores
        added. Of equally good ones the shortest, of these the first.

    Example:
    >>> start, end = np.array([[9.0, 0, 1, 0]]), np.array([[9.0, 5, 0, 2]])
    >>> inside = np.array([[False, True, True, True]])
    >>> best_spans(start, end, inside, 1)
    (array([1]), array([1]), array([5.]))
    >>> best_spans(start, np.array([[9.0, 0, 0, 2]]), inside, 2)
    (array([2]), array([3]), array([3.]))
    """
    start = np.where(inside, start, -np.inf)
    end = np.where(inside, end, -np.inf)
    rows, length = start.shape
    best = np.full(rows, -np.inf)
    first, last = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for further in range(min(max_length, length)):
        score = start[:, : length - further] + end[:, further:]
        place = score.argmax(axis=1)
        score = score[np.arange(rows), place]
        better = score > best
        best = np.where(better, score, best)
        first = np.where(better, place, first)
        last = np.where(better, place + further, last)
    return first, last, best


def best_of_windows(
    windows: AnswerWindows, question: np.ndarray, count: int, *, may_be_none: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The best answer to each question.

    Args:
        windows: What the model says of them.
        question: int64 (R,). The question of each window.
        count: How many questions there are; each has a window.
        may_be_none: Whether a question can be without an answer. It is if that scores
            higher, in every window, than the best answer of all.

    Returns:
        int64 (count,) twice: first and last token in the whole text; -1 for none.
    """
    order = np.lexsort((-windows.score, question))
    best = order[np.searchsorted(question[order], np.arange(count))]
    first, last = windows.first[best].copy(), windows.last[best].copy()
    if may_be_none:
        least = np.full(count, np.inf)
        np.minimum.at(least, question, windows.none)
        none = least > windows.score[best]
        first[none] = last[none] = -1
    return first, last


def answer_texts(
    texts: Sequence[bytes], first: np.ndarray, last: np.ndarray, tokenizer: Tokenizer
) -> list[str]:
    """The characters of texts that stretches of their tokens stand for.

    Args:
        texts: UTF-8, N.
        first: int64 (N,). First token; -1 for no answer, which gives an empty text.
        last: int64 (N,). Last token.
        tokenizer: The run's.
    """
    # Questions about one text mostly come one after another.
    spans = functools.lru_cache(_TEXTS_KEPT)(lambda text: token_spans(text, tokenizer))
    answers = []
    for text, begin, end in zip(texts, first.tolist(), last.tolist(), strict=True):
        if begin < 0:
            answers.append("")
            continue
        begins, ends = spans(text)
        said = text[begins[begin] : ends[end]]
        answers.append(said.decode("utf-8", "ignore").strip())
    return answers
