"""Extractive question answering: targets are the answer's first and last token.

    [CLS] question [SEP] window of the text [SEP]

A long text is split into overlapping windows, one record each. If a window does not
contain the whole answer, or the question has no answer, the target is the position of
`[CLS]`, 0 ([Devlin et al., 2019](https://arxiv.org/abs/1810.04805), 4.2 and 4.3). If a
question has several answers, the target is the first answer. The place of an answer in
other words, a target text, is that of the run of words that shares most words with it.
"""

from dataclasses import dataclass

import numpy as np

from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.base.answer_spans import (
    answer_characters,
    answer_tokens,
)
from transbeam.pipeline.objectives.base.labels import (
    reasons_against,
    rejected_rows,
    token_counts,
    usable_rows,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.records.features import DocumentPositions, Feature, Records
from transbeam.pipeline.records.framing import frame_texts
from transbeam.pipeline.records.token_rows import (
    Grid,
    TokenRows,
    ranges,
    segment_feature,
    slice_rows,
    token_features,
    tokenize_column,
    tokenize_texts,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record."""
    length = run.data.sequence_length
    return (
        *token_features(length),
        segment_feature(length),
        Feature(
            "start_position",
            "int32",
            (),
            "index in the record of the answer's first token; 0: not in this window",
        ),
        Feature(
            "end_position",
            "int32",
            (),
            "index in the record of the answer's last token; 0: not in this window",
        ),
        Feature(
            "context_start",
            "int32",
            (),
            "index in the context of the window's first token",
        ),
    )


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Makes one record per window, in the order of the documents' keys."""
    assert isinstance(run.objective, SpanQAConfig)
    config, length = run.objective, run.data.sequence_length
    begin = needed(tokenizer, run, "begin")
    end = needed(tokenizer, run, "end")
    reasons = reasons_against(batch, ["text", "second_text"])
    characters = answer_characters(batch, reasons)
    rows = usable_rows(batch, reasons)
    usable = batch.take(rows)
    questions = tokenize_column(usable, tokenizer, "second_text")
    texts = _tokenize_each_once(usable.texts(), tokenizer)
    spans = answer_tokens(usable.texts(), characters[rows], texts, tokenizer)

    question_lengths = np.minimum(questions.lengths, config.max_question_length)
    room = length - 3 - question_lengths
    filled = (texts.lengths > 0) & (question_lengths > 0)
    windows = _windows(texts.lengths, room, config.stride, filled)
    which = windows.document
    question = slice_rows(questions, which, 0, question_lengths[which])
    context = slice_rows(texts, which, windows.start, windows.length)
    framed = frame_texts(question, context, frame=TextFrame(begin, end, end))
    grid = Grid.from_lengths(framed.lengths, length)
    column = question_lengths[which] + 2  # of the window's first token
    in_context = ranges(framed.lengths) >= np.repeat(column, framed.lengths)

    first = spans.first[which] - windows.start
    last = spans.last[which] - windows.start
    is_inside = (spans.last[which] >= 0) & (first >= 0) & (last < windows.length)
    seen = np.bincount(which[is_inside], minlength=len(rows)) > 0
    answered = filled & (spans.last >= 0)
    return Records(
        arrays={
            **grid.token_arrays(framed.ids, tokenizer.special.pad),
            "segment_ids": grid.put(in_context),
            "start_position": np.where(is_inside, first + column, 0).astype(np.int32),
            "end_position": np.where(is_inside, last + column, 0).astype(np.int32),
            "context_start": windows.start.astype(np.int32),
        },
        placement=DocumentPositions(np.arange(len(which)), rows[which], windows.start),
        lengths=framed.lengths,
        counts={
            **token_counts(tokenizer, question, context),
            "answers": int(answered.sum()),
            "unaligned_answers": int(np.sum(filled & ~spans.exact)),
            "unseen_answers": int(np.sum(answered & ~seen)),
            "windows_without_answer": int(np.sum(~is_inside)),
            "truncated_tokens": int(
                np.sum((questions.lengths - question_lengths)[filled])
            ),
            "padding": grid.padding,
            "empty_documents": int(np.sum(~filled)),
        },
        rejected=rejected_rows(reasons),
    )


def _tokenize_each_once(texts: np.ndarray, tokenizer: Tokenizer) -> TokenRows:
    """Tokenizes each distinct text once, as many texts have several questions."""
    different, which = np.unique(texts, return_inverse=True)
    rows = tokenize_texts(different, tokenizer)
    return slice_rows(rows, which, 0, rows.lengths[which])


@dataclass(frozen=True)
class _Windows:
    """Overlapping windows of texts; all arrays (N,).

    Attributes:
        document: int64. The index of each window's text, ascending.
        start: int64. The index of the window's first token within the text.
        length: int64. The window's number of tokens.
    """

    document: np.ndarray
    start: np.ndarray
    length: np.ndarray


def _windows(
    lengths: np.ndarray, room: np.ndarray, stride: int, filled: np.ndarray
) -> _Windows:
    """Returns windows of maximal length; the last one reaches the end of the text."""
    step = np.minimum(stride, room)  # no gap between windows
    further = -(-np.maximum(lengths - room, 0) // step)
    per_document = np.where(filled, 1 + further, 0)
    document = np.repeat(np.arange(len(lengths)), per_document)
    start = ranges(per_document) * step[document]
    return _Windows(
        document, start, np.minimum(room[document], lengths[document] - start)
    )
