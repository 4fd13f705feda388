"""What a decoder writes on from, in the graph: rows that end in one column."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    is_before,
    kept_of_each,
    with_piece_before,
)
from transbeam.serving.text_ops.length_buckets import bucket


class EncodedPrompt(NamedTuple):
    """Prompts, padded on the left to the bucket of the longest.

    Attributes:
        tokens: int32 (B, None), without padding.
        token_ids: int32 (B, P).
        padding_mask: int32 (B, P), 0 for padding.
        truncated: bool (B,). Whether the beginning was cut off.
    """

    tokens: tf.RaggedTensor
    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    truncated: tf.Tensor

    @classmethod
    def from_tokens(
        cls, tokens: tf.RaggedTensor, most: tf.Tensor, widest: int, pad: int
    ) -> "EncodedPrompt":
        """The last tokens of texts.

        Args:
            tokens: int32 (B, None), at least one each.
            most: int32 (B,), how many each may have; at least 1.
            widest: No row has more.
            pad: Fills up.
        """
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        kept = tf.minimum(lengths, most)
        starts = tf.cast(tokens.row_starts(), tf.int32) + lengths - kept
        width = bucket(tf.reduce_max(tf.pad(kept, [[0, 1]])), widest)
        place = tf.range(width)[None] - (width - kept)[:, None]  # (B, P)
        real: Any = place >= 0
        flat = tf.pad(tokens.values, [[0, 1]])  # also where there is nothing
        ids = tf.gather(flat, tf.where(real, starts[:, None] + place, 0))
        return cls(
            kept_of_each(tokens, tf.logical_not(is_before(tokens, lengths - kept))),
            tf.where(real, ids, pad),
            tf.cast(real, tf.int32),
            kept < lengths,
        )


def beginnings(tokens: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Texts as the beginnings of documents, as the records of `causal` have them.

    Where one piece stands for begin and end it stands at the end only; then it begins
    a text that has no token of its own, for there has to be one.
    """
    special = tokenizer.special
    if special.begin is not None and special.begin != special.end:
        return with_piece_before(tokens, special.begin)
    return with_piece_before(tokens, special.end, tokens.row_lengths() == 0)


def without_special(tokens: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """What is text among ids: no padding, begin or end."""
    return _without(tokens, tokenizer, ())


def written_text(tokens: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """The text among generated ids: not the id that ended it, either."""
    return _without(tokens, tokenizer, tokenizer.special.stop)


def _without(
    tokens: tf.RaggedTensor, tokenizer: Tokenizer, more: Sequence[int]
) -> tf.RaggedTensor:
    special = tokenizer.special
    silent = [
        piece
        for piece in (special.pad, special.begin, special.end, *more)
        if piece is not None
    ]
    told = tf.reduce_all(tf.expand_dims(tokens.values, 1) != silent, axis=1)
    return kept_of_each(tokens, told)


def as_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Texts that end amid a character, made whole."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
