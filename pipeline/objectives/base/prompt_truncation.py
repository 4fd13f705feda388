"""Truncation of prompts that keeps the words of their template."""

from typing import NamedTuple

import numpy as np

from transbeam.configs.base.templates import edge_texts
from transbeam.configs.schema.objectives.supervised import CompletionConfig
from transbeam.pipeline.records.token_rows import (
    TokenRows,
    ranges,
    split_rows,
    tokenize_texts,
)
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


class TemplateWords(NamedTuple):
    """The tokens of a template's words before its first and after its last field.

    A prompt that is cut keeps them: without `Summarize: ` at its beginning or `In
    short:` at its end it would ask for something else.

    Attributes:
        before: int32 (A,).
        after: int32 (Z,).
    """

    before: np.ndarray
    after: np.ndarray

    @classmethod
    def from_config(
        cls, config: CompletionConfig, tokenizer: Tokenizer
    ) -> "TemplateWords":
        """Tokenizes the words of the template `prompt`, without its separator."""
        texts = edge_texts(config.prompt_template)
        rows = tokenize_texts([text.encode("utf-8") for text in texts], tokenizer)
        splits = rows.row_splits
        return cls(rows.ids[: splits[1]], rows.ids[splits[1] :])

    def count(self, prompts: TokenRows) -> tuple[np.ndarray, np.ndarray]:
        """Counts the leading and the trailing tokens of prompts that are never cut.

        The words have been tokenized alone; at a field, their tokens may differ from
        those inside a prompt, and the first token that differs may be cut.

        Returns:
            int64 (N,) each.
        """
        lengths = prompts.lengths
        leading = _shared(prompts, prompts.row_splits[:-1], self.before, 1)
        trailing = _shared(prompts, prompts.row_splits[1:] - 1, self.after[::-1], -1)
        return leading, np.minimum(trailing, lengths - leading)


def truncate_prompts(
    prompts: TokenRows, most: int, config: CompletionConfig, tokenizer: Tokenizer
) -> TokenRows:
    """Cuts prompts that are too long for a request, in records' way.

    A prompt whose template alone is too long also loses its beginning.
    """
    leading, trailing = TemplateWords.from_config(config, tokenizer).count(prompts)
    over = np.maximum(prompts.lengths - most, 0)
    cut = np.minimum(over, prompts.lengths - leading - trailing)
    starts = cut_starts(prompts, cut, leading, trailing, config)
    shorter = drop_tokens(prompts, starts, cut)
    return drop_tokens(shorter, np.zeros_like(over), over - cut)


def cut_starts(
    prompts: TokenRows,
    cut: np.ndarray,
    leading: np.ndarray,
    trailing: np.ndarray,
    config: CompletionConfig,
) -> np.ndarray:
    """Returns the position in each prompt from which tokens are cut, int64 (N,).

    Args:
        prompts: N prompts.
        cut: int64 (N,). The number of tokens to cut.
        leading: int64 (N,). The number of leading tokens to keep.
        trailing: int64 (N,). The number of trailing tokens to keep.
        config: Configuration with the side at which prompts are cut.
    """
    if config.too_long == "truncate_start":
        return leading
    return prompts.lengths - trailing - cut


def drop_tokens(rows: TokenRows, starts: np.ndarray, counts: np.ndarray) -> TokenRows:
    """Removes a stretch of tokens from each row.

    Args:
        rows: N rows.
        starts: int64 (N,). The position in each row of the first token to remove.
        counts: int64 (N,). The number of tokens to remove.

    Example:
    >>> rows = split_rows(np.array([5, 6, 7, 8]), np.array([3, 1]))
    >>> drop_tokens(rows, np.array([1, 0]), np.array([1, 0])).ids
    array([5, 7, 8], dtype=int32)
    """
    lengths = rows.lengths
    position = ranges(lengths)
    first, end = np.repeat(starts, lengths), np.repeat(starts + counts, lengths)
    kept = (position < first) | (position >= end)
    return split_rows(rows.ids[kept], lengths - counts)


def _shared(
    rows: TokenRows, starts: np.ndarray, words: np.ndarray, step: int
) -> np.ndarray:
    """Counts the tokens that rows share with words, from a start in steps of 1 or -1.

    Returns:
        int64 (N,).
    """
    count = np.zeros(len(starts), np.int64)
    for number, word in enumerate(words):
        place = np.clip(starts + step * number, 0, max(len(rows.ids) - 1, 0))
        inside = (count == number) & (number < rows.lengths)
        if not inside.any():
            break
        count += inside & (rows.ids[place] == word)
    return count
