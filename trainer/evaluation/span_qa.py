"""Extractive question answering: the best span over all windows of a question.

A model predicts start and end logits for each position of a window. The answer is the
span with the highest sum of its start logit and end logit, up to a maximum length, over
all windows ([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), 4.2 and 4.3);
position 0, the special token before the question (`[CLS]` in BERT), represents no
answer. Token positions are then mapped to the characters of the text.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from transbeam.model.base.answer_spans import best_spans
from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.records.token_rows import tokenize_texts
from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.trainer.evaluation.bits_per_byte import added_bytes
from transbeam.trainer.evaluation.exported_signature import Outputs
from transbeam.trainer.objectives.objective_metrics import Batch
from transbeam.trainer.step.batch import model_inputs

_TEXTS_KEPT = 16


@dataclass(frozen=True)
class AnswerWindows:
    """The best answer in each window; all arrays (R,).

    Attributes:
        first: int64. The answer's first token, by its index in the whole text.
        last: int64. Its last token.
        score: float64. The sum of start and end logit.
        none: float64. The sum of start and end logit for no answer.
    """

    first: np.ndarray
    last: np.ndarray
    score: np.ndarray
    none: np.ndarray


def make_span_outputs(model: keras.Model) -> Outputs:
    """Builds the function from a batch of packed records to a model's outputs."""
    return lambda batch: model.predict_on_batch(model_inputs(model, batch))


def read_windows(
    outputs: Outputs, batches: Iterable[Batch], max_length: int
) -> AnswerWindows:
    """Runs a model on windows, and finds the best answer in each.

    Args:
        outputs: The output function of a model with objective.kind=span_qa.
        batches: Batches of the windows' records.
        max_length: Largest number of tokens in an answer.
    """
    found: list[tuple[np.ndarray, ...]] = []
    for batch in batches:
        logits = outputs(batch)
        start, end = (
            np.asarray(logits[name], np.float64)
            for name in ("start_logits", "end_logits")
        )
        # The context, without its end piece.
        place = np.arange(start.shape[1])
        inside = batch["segment_ids"] == 1
        last = np.where(inside, place, 0).max(axis=1, keepdims=True)
        inside = inside & (place < last)
        begins, ends, score = best_spans(start, end, inside, max_length)
        to_text = batch["context_start"] - np.argmax(inside, axis=1)
        none = start[:, 0] + end[:, 0]
        found.append((begins + to_text, ends + to_text, score, none))
    return AnswerWindows(*map(np.concatenate, zip(*found, strict=True)))


@dataclass(frozen=True)
class BestAnswers:
    """The best answer to each question over its windows; all arrays (Q,).

    Attributes:
        first: int64. The answer's first token, by its index in the whole text.
        last: int64. Its last token.
        difference: float64. The lowest no-answer score of the question's windows, minus
            the score of its best answer.
    """

    first: np.ndarray
    last: np.ndarray
    difference: np.ndarray

    def spans(self, threshold: float | None) -> tuple[np.ndarray, np.ndarray]:
        """First and last tokens of the predictions, -1 for no answer.

        Args:
            threshold: No answer is predicted if the difference exceeds it, so at 0 if
                the no-answer score of every window is higher than the best answer's;
                None if every question has an answer.
        """
        first, last = self.first.copy(), self.last.copy()
        if threshold is not None:
            none = self.difference > threshold
            first[none] = last[none] = -1
        return first, last


def best_of_windows(
    windows: AnswerWindows, question: np.ndarray, count: int
) -> BestAnswers:
    """Selects the best answer to each question over its windows.

    Args:
        windows: The best answer in each window.
        question: int64 (R,). The question of each window.
        count: Number of questions; each of them has at least one window.
    """
    order = np.lexsort((-windows.score, question))
    best = order[np.searchsorted(question[order], np.arange(count))]
    least = np.full(count, np.inf)
    np.minimum.at(least, question, windows.none)
    difference = least - windows.score[best]
    return BestAnswers(windows.first[best], windows.last[best], difference)


def right_answers(document: Mapping[str, Any]) -> list[str]:
    """Returns the correct answers to a question; none if it has no answer.

    Args:
        document: The attributes of a `Document`. Without quoted answers, its references
            or its target text are correct.

    Example:
    >>> document = {"answers": [], "references": [], "target_text": b"a summary"}
    >>> right_answers(document)
    ['a summary']
    """
    if document["answers"]:
        return [answer["text"] for answer in document["answers"]]
    target = document["target_text"].decode("utf-8")
    return list(document["references"]) or ([target] if target else [])


def all_right_answers(held_out: ValidationDocuments) -> list[list[str]]:
    """Returns the correct answers to each question of a split."""
    columns = {
        "answers": held_out.values("answers"),
        "references": held_out.values("references"),
        "target_text": held_out.texts("target_text"),
    }
    rows = zip(*columns.values(), strict=True)
    return [right_answers(dict(zip(columns, row, strict=True))) for row in rows]


def answer_texts(
    texts: Sequence[bytes], first: np.ndarray, last: np.ndarray, tokenizer: Tokenizer
) -> list[str]:
    """Extracts the substrings of texts that are given as token spans.

    Args:
        texts: N texts in UTF-8.
        first: int64 (N,). First token; -1 for no answer, which gives an empty text.
        last: int64 (N,). Last token.
        tokenizer: The run's tokenizer.
    """
    # Questions about one text are mostly consecutive.
    spans = functools.lru_cache(_TEXTS_KEPT)(lambda text: token_spans(text, tokenizer))
    answers = []
    for text, begin, end in zip(texts, first.tolist(), last.tolist(), strict=True):
        if begin < 0:
            answers.append("")
            continue
        begins, ends = spans(text)
        answers.append(
            text[begins[begin] : ends[end]].decode("utf-8", "ignore").strip()
        )
    return answers


def token_spans(text: bytes, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
    """Finds the byte span of each token in a text.

    If the number of text bytes of each token is known, as in byte-level BPE, the
    offsets are cumulative sums of the tokens' byte lengths. Otherwise the text's words
    are tokenized one by one; a boundary between two tokens of a word is at the end of
    the longest prefix of the word that is tokenized to exactly the tokens before the
    boundary. A token whose boundary has no such prefix extends to the next known
    boundary. If the words give other tokens than the text, every token spans the whole
    text.

    Args:
        text: UTF-8.
        tokenizer: The run's tokenizer.

    Returns:
        Two int64 arrays (T,): the byte offsets of each token's start and end in the
        text.
    """
    ids = tokenize_texts([text], tokenizer).ids
    table = piece_bytes(tokenizer)
    if table is not None:
        (added,) = added_bytes([text], tokenizer, table)
        if added >= 0:
            edges = np.concatenate([[0], np.cumsum(table[ids]) - added])
            return edges[:-1], edges[1:]
    words = _words(text)
    alone = tokenize_texts(
        [tokenizer.word_prefix.encode() + text[a:b] for a, b in words], tokenizer
    )
    if not np.array_equal(alone.ids, ids):
        return np.zeros(len(ids), np.int64), np.full(len(ids), len(text))
    begins, ends = [], []
    for (begin, end), count in zip(words, alone.lengths.tolist(), strict=True):
        inner = _edges(text[begin:end], count, tokenizer) if count > 1 else {}
        # For a missing boundary, spans extend to the previous and the next known one.
        before = after = 0
        starts, stops = [], []
        for place in range(count):
            before = inner.get(place, before)
            starts.append(begin + before)
        after = end - begin
        for place in range(count, 0, -1):
            after = after if place == count else inner.get(place, after)
            stops.append(begin + after)
        begins += starts
        ends += stops[::-1]
    return np.array(begins, np.int64), np.array(ends, np.int64)


def _words(text: bytes) -> list[tuple[int, int]]:
    """Byte spans of whitespace-separated words."""
    decoded = text.decode("utf-8")
    found = []
    at = characters = 0
    for word in re.finditer(r"\S+", decoded):
        at += len(decoded[characters : word.start()].encode())
        length = len(word.group().encode())
        found.append((at, at + length))
        at, characters = at + length, word.end()
    return found


def _edges(word: bytes, count: int, tokenizer: Tokenizer) -> dict[int, int]:
    """Maps n to the byte length of the longest prefix with a word's first n tokens.

    Args:
        word: The word in UTF-8, which has `count` tokens.
        count: At least 2.
        tokenizer: The run's tokenizer.
    """
    decoded = word.decode("utf-8")
    beginnings = [decoded[:end].encode() for end in range(1, len(decoded) + 1)]
    prefix = tokenizer.word_prefix.encode()
    rows = tokenize_texts([prefix + beginning for beginning in beginnings], tokenizer)
    whole = rows.ids[rows.row_splits[-2] :]
    edges = {}
    for beginning, start, end in zip(
        beginnings, rows.row_splits[:-1], rows.row_splits[1:], strict=True
    ):
        here = rows.ids[start:end]
        if len(here) < count and np.array_equal(here, whole[: len(here)]):
            edges[len(here)] = len(beginning)
    return edges
