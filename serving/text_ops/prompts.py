"""Left-padded prompts for decoders, in the graph."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    filter_rows,
    is_before,
    prepend_token,
)
from transbeam.serving.text_ops.length_buckets import bucket


class EncodedPrompt(NamedTuple):
    """Prompts, padded on the left to the bucket width of the longest prompt.

    Attributes:
        tokens: int32 (B, None), without padding.
        token_ids: int32 (B, P).
        padding_mask: int32 (B, P), 0 for padding.
        truncated: bool (B,). Whether the beginning of the prompt was cut off.
    """

    tokens: tf.RaggedTensor
    token_ids: tf.Tensor
    padding_mask: tf.Tensor
    truncated: tf.Tensor

    @classmethod
    def from_tokens(
        cls, tokens: tf.RaggedTensor, most: tf.Tensor, widest: int, pad: int
    ) -> "EncodedPrompt":
        """Keeps the last tokens of each text.

        Args:
            tokens: int32 (B, None), at least one token per row.
            most: int32 (B,), the maximum number of tokens of each text; at least 1.
            widest: The maximum number of tokens of any row.
            pad: The padding id.
        """
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        kept = tf.minimum(lengths, most)
        starts = tf.cast(tokens.row_starts(), tf.int32) + lengths - kept
        width = bucket(tf.reduce_max(tf.pad(kept, [[0, 1]])), widest)
        index = tf.range(width)[None] - (width - kept)[:, None]  # (B, P)
        real: Any = index >= 0
        flat = tf.pad(tokens.values, [[0, 1]])  # never empty, for `tf.gather`
        ids = tf.gather(flat, tf.where(real, starts[:, None] + index, 0))
        return cls(
            filter_rows(tokens, tf.logical_not(is_before(tokens, lengths - kept))),
            tf.where(real, ids, pad),
            tf.cast(real, tf.int32),
            kept < lengths,
        )


def beginnings(tokens: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Adds the start token to texts, as in the records of `causal`.

    If the tokenizer has no separate start token, records contain the end token only at
    the end of documents; in prompts the end token is then added only to empty texts,
    because a prompt needs at least one token.
    """
    special = tokenizer.special
    if special.begin is not None and special.begin != special.end:
        return prepend_token(tokens, special.begin)
    return prepend_token(tokens, special.end, tokens.row_lengths() == 0)


def without_special(
    tokens: tf.RaggedTensor, tokenizer: Tokenizer, more: Sequence[int] = ()
) -> tf.RaggedTensor:
    """Removes padding, start and end tokens.

    Args:
        tokens: int32 (B, None).
        tokenizer: The tokenizer that made the tokens.
        more: Further tokens to remove.
    """
    special = tokenizer.special
    silent = [
        piece
        for piece in (special.pad, special.begin, special.end, *more)
        if piece is not None
    ]
    shown = tf.reduce_all(tf.expand_dims(tokens.values, 1) != silent, axis=1)
    return filter_rows(tokens, shown)


def written_text(tokens: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.RaggedTensor:
    """Removes padding, start, end and stop tokens from generated ids."""
    return without_special(tokens, tokenizer, tokenizer.special.stop)


def as_utf8(texts: tf.Tensor) -> tf.Tensor:
    """Replaces invalid UTF-8, such as an incomplete character at the end."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
