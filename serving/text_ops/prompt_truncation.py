"""Truncation of prompts that keeps the words of their template, in the graph."""

from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.objectives.base.prompt_truncation import TemplateWords
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    filter_rows,
    positions_in_rows,
    row_of_each,
)


def truncate_prompts(
    tokens: tf.RaggedTensor, most: tf.Tensor, words: TemplateWords, *, from_start: bool
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Cuts the texts of prompts, and not the words of their template.

    Prompts whose template alone is too long remain too long.

    Args:
        tokens: int32 (B, None), prompts without special tokens.
        most: int32 (B,), the maximum number of tokens of each prompt.
        words: The words of the template.
        from_start: True to cut the texts at their start, false at their end.

    Returns:
        int32 (B, None), the prompts; bool (B,), whether tokens were cut.

    Example:
    >>> words = TemplateWords(np.array([5]), np.array([9]))
    >>> prompts = tf.ragged.constant([[5, 1, 2, 3, 9]])
    >>> truncate_prompts(prompts, [4], words, from_start=True)[0].to_list()
    [[5, 2, 3, 9]]
    """
    lengths = tokens.row_lengths()
    leading = _shared(tokens, words.before)
    trailing = _shared(tokens[:, ::-1], words.after[::-1])
    trailing = tf.minimum(trailing, lengths - leading)
    over = tf.maximum(lengths - tf.cast(most, tf.int64), 0)
    cut = tf.minimum(over, lengths - leading - trailing)
    start = leading if from_start else lengths - trailing - cut
    row, position = row_of_each(tokens), positions_in_rows(tokens)
    is_before: Any = position < tf.gather(start, row)
    is_after: Any = position >= tf.gather(start + cut, row)
    return filter_rows(tokens, is_before | is_after), cut > 0


def _shared(tokens: tf.RaggedTensor, words: np.ndarray) -> tf.Tensor:
    """Counts the leading tokens that each row shares with words: int64 (B,)."""
    beginning = tokens[:, : len(words)].to_tensor(-1, shape=[None, len(words)])
    same: Any = beginning == words
    return tf.reduce_sum(tf.math.cumprod(tf.cast(same, tf.int64), axis=1), axis=1)
