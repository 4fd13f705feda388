"""Encodes texts for a model, in the graph: special tokens, truncation and padding.

The tokenizer runs in the graph, so clients send strings only, and batching by a server
cannot corrupt a padding mask, because the mask is computed in the graph, from the
texts. Special tokens are placed as in the training records.
"""

from dataclasses import dataclass

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    filter_rows,
    is_before,
)
from transbeam.pipeline.tokenizers.base.text_frame import TextFrame, encoder_frame
from transbeam.serving.text_ops.framing import frame_texts
from transbeam.serving.text_ops.length_buckets import bucket


@dataclass(frozen=True)
class Encoded:
    """Texts as rows of ids, padded to the bucket width of the longest row.

    Attributes:
        token_ids: int32 (B, T).
        lengths: int32 (B,), the number of real tokens of each row.
        truncated: bool (B,), whether the text was cut.
        segment_ids: int32 (B, T), 1 on the second text of a pair and the end token
            after it.
    """

    token_ids: tf.Tensor
    lengths: tf.Tensor
    truncated: tf.Tensor
    segment_ids: tf.Tensor

    @property
    def padding_mask(self) -> tf.Tensor:
        """int32 (B, T), 1 for a real token."""
        length = tf.shape(self.token_ids)[1]
        return tf.sequence_mask(self.lengths, length, dtype=tf.int32)


class TextEncoder:
    """Adds special tokens to texts and pairs of texts, and truncates them.

    Args:
        tokenizer: The tokenizer.
        max_length: The maximum number of tokens of a row.
        frame: The special tokens; left out, those of an encoder, which the tokenizer
            has to have.
    """

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, frame: TextFrame | None = None
    ):
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.frame = frame or encoder_frame(tokenizer.special)

    def shorter(self, max_length: int) -> "TextEncoder":
        """Returns an encoder with a maximum row length of at most `max_length`."""
        return TextEncoder(self.tokenizer, min(self.max_length, max_length), self.frame)

    def text(self, tokens: tf.RaggedTensor) -> Encoded:
        """Encodes texts; a text that is too long is cut at its end.

        Args:
            tokens: int32 (B, None).
        """
        room = self.max_length - self.frame.size()
        framed = frame_texts(tokens[:, :room], frame=self.frame)
        lengths = framed.row_lengths()
        return self._padded(framed, lengths, tokens.row_lengths() > room)

    def pair(self, first: tf.RaggedTensor, second: tf.RaggedTensor) -> Encoded:
        """Encodes pairs of texts.

        A pair that is too long loses tokens at the end of its longer text, until both
        texts are equally long; then at the ends of both in turn, beginning with the
        second text.

        Args:
            first: int32 (B, None).
            second: int32 (B, None).
        """
        room = self.max_length - self.frame.size(2)
        lengths = first.row_lengths(), second.row_lengths()
        at_least = tf.maximum(room - lengths[1], (room + 1) // 2)
        of_first = tf.minimum(lengths[0], at_least)
        of_second = tf.minimum(lengths[1], room - of_first)
        parts = _heads(first, of_first), _heads(second, of_second)
        framed = frame_texts(*parts, frame=self.frame)
        before = of_first + self.frame.starts + 1
        return self._padded(framed, before, lengths[0] + lengths[1] > room)

    def _padded(
        self, framed: tf.RaggedTensor, of_first: tf.Tensor, truncated: tf.Tensor
    ) -> Encoded:
        pad = self.tokenizer.special.pad
        token_ids, lengths, _ = right_padded(framed, self.max_length, pad)
        width = tf.shape(token_ids)[1]
        before = tf.sequence_mask(of_first, width, dtype=tf.int32)
        real = tf.sequence_mask(lengths, width, dtype=tf.int32)
        return Encoded(token_ids, lengths, truncated, real - before)


def right_padded(
    tokens: tf.RaggedTensor, max_length: int, pad: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Pads rows to the longest row's bucket width; truncates rows that are too long.

    Args:
        tokens: int32 (B, None).
        max_length: The maximum number of tokens of a row.
        pad: The padding id.

    Returns:
        The padded rows int32 (B, T), their lengths int32 (B,), and whether each row was
        truncated, bool (B,).
    """
    lengths = tf.cast(tokens.row_lengths(), tf.int32)
    kept = tf.minimum(lengths, max_length)
    width = bucket(tf.reduce_max(tf.pad(kept, [[0, 1]])), max_length)
    shape = tf.cast(tf.stack([-1, width]), tf.int64)
    return tokens.to_tensor(pad, shape=shape), kept, lengths > kept


def _heads(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first tokens of each row."""
    return filter_rows(tokens, is_before(tokens, lengths))
