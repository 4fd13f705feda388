"""Completion: a decoder predicts the answer that follows a prompt.

    token_ids       [BEGIN] p q a b [END]
    target_ids      p q a b [END] -
    target_weights  0 0 1 1 1 0

The prompt and the answer are tokenized separately. A tokenizer that joined the end of a
prompt and the beginning of an answer to one token would give the prompt other tokens
than it has in a request, which holds the prompt alone.

References:
    - [Radford et al.,
      2018](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf),
      3.3 (a task's texts as one sequence of tokens)
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Split
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import causal
from transbeam.pipeline.objectives.base.labels import usable_rows
from transbeam.pipeline.objectives.base.prompt_truncation import (
    TemplateWords,
    cut_starts,
    drop_tokens,
)
from transbeam.pipeline.objectives.base.special_tokens import needed
from transbeam.pipeline.objectives.base.target_records import make_target_records
from transbeam.pipeline.objectives.base.text_templates import (
    filled,
    reasons_against_texts,
)
from transbeam.pipeline.records.features import Feature, Records
from transbeam.pipeline.records.token_rows import (
    TokenRows,
    join_rows,
    ranges,
    slice_rows,
    tokenize_texts,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


def features(run: RunConfig) -> tuple[Feature, ...]:
    """Returns the features of a record, those of `causal`."""
    return causal.features(run)


def make_records(
    batch: DocumentBatch, tokenizer: Tokenizer, run: RunConfig, split: Split
) -> Records:
    """Packs prompts with their answers; the targets are the answers and their ends."""
    config = run.objective
    assert isinstance(config, CompletionConfig)
    end, begin = needed(tokenizer, run, "end"), tokenizer.special.begin
    before = [] if begin in (None, end) else [begin]
    reasons = reasons_against_texts(batch, config)
    rows = usable_rows(batch, reasons)
    prompts, answers = tokenize_pairs(batch.take(rows), tokenizer, config)
    leading, trailing = TemplateWords.from_config(config, tokenizer).count(prompts)

    frame = len(before) + 1
    cut = _tokens_to_cut(prompts, answers, run.data.sequence_length - frame)
    # A prompt without any token of its texts would be no use.
    most = np.maximum(prompts.lengths - leading - trailing - 1, 0)
    if config.too_long == "drop":
        most[:] = 0
    for row, reason in zip(
        rows, _too_long(answers, cut, most, run, frame), strict=True
    ):
        reasons[row] = reason
    is_filled = (prompts.lengths > 0) & (answers.lengths > 0)
    is_usable = np.array([reasons[row] is None for row in rows], np.bool_)
    used = np.flatnonzero(is_usable & is_filled)

    start = cut_starts(prompts, cut, leading, trailing, config)
    answers = slice_rows(answers, used, 0, answers.lengths[used])
    prompts = slice_rows(prompts, used, 0, prompts.lengths[used])
    prompts = drop_tokens(prompts, start[used], cut[used])
    stream = join_rows(*before, prompts, answers, end)
    given = np.repeat(prompts.lengths + len(before), stream.lengths)
    is_target = ranges(stream.lengths) >= (given if config.loss == "answer" else 0)
    found = make_target_records(
        stream, is_target, (rows[used], batch.keys[rows[used]]), reasons, tokenizer, run
    )
    counts = {
        **found.counts,
        "truncated_documents": int(np.sum(cut[used] > 0)),
        "truncated_tokens": int(cut[used].sum()),
        "empty_documents": int(np.sum(is_usable & ~is_filled)),
    }
    return replace(found, counts=counts)


def tokenize_pairs(
    batch: DocumentBatch, tokenizer: Tokenizer, config: CompletionConfig
) -> tuple[TokenRows, TokenRows]:
    """Tokenizes the prompt and the answer of each document, without special tokens."""
    answer = config.separator + config.answer
    return (
        tokenize_texts(filled(batch, config.prompt_template), tokenizer),
        tokenize_texts(filled(batch, answer), tokenizer),
    )


def _tokens_to_cut(prompts: TokenRows, answers: TokenRows, room: int) -> np.ndarray:
    """Returns how many tokens each prompt has too many, int64 (N,)."""
    return np.maximum(prompts.lengths + answers.lengths - room, 0)


def _too_long(
    answers: TokenRows,
    cut: np.ndarray,
    most: np.ndarray,
    run: RunConfig,
    frame: int,
) -> Sequence[str | None]:
    """Returns the reason against each pair that does not fit into a record, or None.

    Args:
        answers: The N answers.
        cut: int64 (N,). The number of tokens to cut from each prompt.
        most: int64 (N,). The number of tokens that may be cut.
        run: The run's configuration.
        frame: The number of special tokens.
    """
    length = run.data.sequence_length
    reasons: list[str | None] = []
    for answer, is_over in zip(answers.lengths, cut > most, strict=True):
        if answer > length - frame - 1:
            reasons.append(
                f"answer of {answer} tokens: too long for data.sequence_length={length}"
            )
        elif is_over:
            reasons.append("prompt and answer longer than data.sequence_length")
        else:
            reasons.append(None)
    return reasons
