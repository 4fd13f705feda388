"""Overlapping windows of long texts with their questions, in the graph.

[CLS] question [SEP] window of the text [SEP], as in the training records.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import SpecialIds
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    positions_in_rows,
    split_rows,
)
from transbeam.pipeline.tokenizers.base.text_frame import encoder_frame
from transbeam.serving.text_ops.framing import frame_texts
from transbeam.serving.text_ops.text_encoder import right_padded


class WindowRows(NamedTuple):
    """R windows as inputs of the model.

    Attributes:
        token_ids: int32 (R, T).
        padding_mask: int32 (R, T).
        segment_ids: int32 (R, T), 1 on the window and the `[SEP]` after it.
        inside: bool (R, T), true at positions where an answer may lie.
        to_text: int32 (R,), the offset from a position in the row to a position in the
            text.
    """

    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    segment_ids: tf.Tensor
    inside: tf.Tensor
    to_text: tf.Tensor


@dataclass(frozen=True)
class TextWindows:
    """R windows of B texts.

    Attributes:
        questions: int32 (B, None), the tokens of the questions, truncated to the
            maximum question length.
        texts: int32 (B, None).
        special: The special tokens.
        length: The maximum number of tokens of a row.
        text: int64 (R,), the index of the text of each window, ascending.
        start: int32 (R,), the index in its text of each window's first token.
        size: int32 (R,), the number of text tokens in each window.
    """

    questions: tf.RaggedTensor
    texts: tf.RaggedTensor
    special: SpecialIds
    length: int
    text: tf.Tensor
    start: tf.Tensor
    size: tf.Tensor

    @classmethod
    def from_texts(
        cls,
        questions: tf.RaggedTensor,
        texts: tf.RaggedTensor,
        special: SpecialIds,
        *,
        length: int,
        stride: int,
        longest_question: int,
    ) -> "TextWindows":
        """Splits each text into windows of maximum length that cover the whole text."""
        questions = questions[:, :longest_question]
        number = tf.cast(texts.row_lengths(), tf.int32)
        room = length - 3 - tf.cast(questions.row_lengths(), tf.int32)
        step = tf.minimum(stride, room)
        count = 1 + -(-tf.maximum(number - room, 0) // step)  # rounded up
        text = tf.repeat(tf.range(tf.shape(number)[0]), count)
        first = tf.gather(tf.cumsum(count, exclusive=True), text)
        start = (tf.range(tf.size(text)) - first) * tf.gather(step, text)
        size = tf.minimum(tf.gather(room, text), tf.gather(number, text) - start)
        of_text = tf.cast(text, tf.int64)
        return cls(questions, texts, special, length, of_text, start, size)

    @property
    def longest(self) -> tf.Tensor:
        """The number of tokens of the longest row, int32 scalar."""
        question = tf.gather(self.questions.row_lengths(), self.text)
        lengths = tf.cast(question, tf.int32) + self.size + 3
        return tf.reduce_max(tf.pad(lengths, [[0, 1]], constant_values=1))

    def rows(self, begin: tf.Tensor, end: tf.Tensor) -> WindowRows:
        """Returns the windows `begin` to `end` - 1 as inputs of the model."""
        text, start, size = (x[begin:end] for x in (self.text, self.start, self.size))
        question = tf.gather(self.questions, text)
        before = tf.cast(question.row_lengths(), tf.int32) + 2  # of its first token
        first = tf.gather(tf.cast(self.texts.row_starts(), tf.int32), text) + start
        window = split_rows(tf.repeat(first, size), tf.cast(size, tf.int64))
        cells = window.values + tf.cast(positions_in_rows(window), tf.int32)
        window = window.with_values(tf.gather(self.texts.values, cells))
        framed = frame_texts(question, window, frame=encoder_frame(self.special))
        token_ids, lengths, _ = right_padded(framed, self.length, self.special.pad)
        position = tf.range(tf.shape(token_ids)[1])[None]
        real: Any = position < lengths[:, None]
        of_window: Any = real & (position >= before[:, None])
        return WindowRows(
            token_ids,
            tf.cast(real, tf.int32),
            tf.cast(of_window, tf.int32),
            of_window & (position < lengths[:, None] - 1),
            start - before,
        )
