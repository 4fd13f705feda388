"""Questions beside windows of long texts, in the graph, as the training's records are.

[CLS] question [SEP] window of the text [SEP]
"""

from typing import Any, NamedTuple

import tensorflow as tf

from pipeline.tokenizers.interface import SpecialIds
from pipeline.tokenizers.ragged_rows import (
    side_by_side,
    with_piece_before,
    with_piece_behind,
)
from serving.encoding import right_padded


class Windows(NamedTuple):
    """R windows of B texts.

    Attributes:
        token_ids: int32 (R, T).
        padding_mask: int32 (R, T).
        segment_ids: int32 (R, T), 1 on the window and the piece that ends it.
        inside: bool (R, T), where an answer may lie.
        text: int64 (R,), which text each is of, ascending.
        to_text: int32 (R,), what is added to a place here to have it in the text.
    """

    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    segment_ids: tf.Tensor
    inside: tf.Tensor
    text: tf.Tensor
    to_text: tf.Tensor

    @classmethod
    def of(
        cls,
        questions: tf.RaggedTensor,
        texts: tf.RaggedTensor,
        special: SpecialIds,
        *,
        length: int,
        stride: int,
        longest_question: int,
    ) -> "Windows":
        """Windows as long as there is room, up to the first that reaches the end."""
        questions = questions[:, :longest_question]
        asked = tf.cast(questions.row_lengths(), tf.int32)
        number = tf.cast(texts.row_lengths(), tf.int32)
        room = length - 3 - asked
        step = tf.minimum(stride, room)
        further = -(-tf.maximum(number - room, 0) // step)  # rounded up
        of_text = tf.repeat(tf.range(tf.shape(number)[0]), 1 + further)
        start = tf.ragged.range(1 + further).values * tf.gather(step, of_text)
        size = tf.minimum(tf.gather(room, of_text), tf.gather(number, of_text) - start)
        first = tf.gather(tf.cast(texts.row_starts(), tf.int32), of_text) + start
        cells = tf.ragged.range(first, first + size)
        window = cells.with_values(tf.gather(texts.values, cells.values))
        begun = with_piece_before(tf.gather(questions, of_text), special.begin)
        framed = side_by_side(
            with_piece_behind(begun, special.end),
            with_piece_behind(window, special.end),
        )
        token_ids, lengths, _ = right_padded(framed, length, special.pad)
        width = tf.shape(token_ids)[1]
        before = tf.gather(asked, of_text) + 2  # of the window's first token
        place = tf.range(width)[None]
        real: Any = place < lengths[:, None]
        of_window: Any = real & (place >= before[:, None])
        return cls(
            token_ids,
            tf.cast(real, tf.int32),
            tf.cast(of_window, tf.int32),
            of_window & (place < lengths[:, None] - 1),
            tf.cast(of_text, tf.int64),
            start - before,
        )
