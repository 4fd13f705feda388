"""Finds sentinels in texts, and the output text for each sentinel, in the graph.

Sentinels are written as in T5: `<extra_id_0>` for the first sentinel of a text, then
`<extra_id_1>`. The output repeats each sentinel, followed by the text that replaces it:

    text    Thank you <extra_id_0> me to your party <extra_id_1> week
    output  <extra_id_0> for inviting <extra_id_1> last
"""

from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import select_in_rows
from transbeam.serving.text_ops.mask_tokens import tokenize_with_marks
from transbeam.serving.text_ops.prompts import as_utf8

_NO_GAP = -1


def tokenize_with_gaps(tokenizer: Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Tokenizes texts in which a literal `<extra_id_0>` is the sentinel of that name.

    Literals whose number has no sentinel in the tokenizer are ordinary text. See
    `tokenize_with_marks`.

    Args:
        tokenizer: A tokenizer with at least one sentinel.
        texts: string (N,).

    Returns:
        int32 (N, None).
    """
    marks = {tokenizer.pieces[id]: id for id in tokenizer.special.sentinels}
    return tokenize_with_marks(tokenizer, texts, marks)


def sentinel_literals(tokenizer: Tokenizer, asked: tf.Tensor) -> tf.Tensor:
    """Returns the literals of the sentinels in texts, in their order.

    Args:
        tokenizer: A tokenizer with sentinels.
        asked: int32 (B, S), the texts.

    Returns:
        string (B, G), padded with `""`.
    """
    sentinels = list(tokenizer.special.sentinels)
    found = _gaps(tokenizer, asked)[:, :, tf.newaxis] == sentinels  # (B, G, sentinels)
    # Padding matches no sentinel and gets the index after the last one.
    index = tf.where(found, tf.range(len(sentinels)), len(sentinels))
    names = [*(tokenizer.pieces[id] for id in sentinels), ""]
    return tf.gather(names, tf.reduce_min(index, axis=2))


def sentinel_texts(
    tokenizer: Tokenizer, asked: tf.Tensor, token_ids: tf.Tensor, lengths: tf.Tensor
) -> tf.Tensor:
    """Returns the text that outputs have for each sentinel of their input.

    Args:
        tokenizer: A tokenizer with sentinels.
        asked: int32 (B, S), the input texts.
        token_ids: int32 (B, N), the outputs.
        lengths: int32 (B,), the numbers of tokens of the outputs.

    Returns:
        string (B, G), UTF-8, in the order of the sentinels, without spaces at both
        ends; `""` for a sentinel that is not in the output, and for padding. If the
        output repeats a sentinel, its first occurrence is used.
    """
    gaps = _gaps(tokenizer, asked)[:, :, tf.newaxis]  # (B, G, 1)
    shape = tf.shape(token_ids)
    real: Any = tf.sequence_mask(lengths, shape[1])  # (B, N)
    opens = _is_sentinel(tokenizer, token_ids) & real
    stretch = tf.cumsum(tf.cast(opens, tf.int32), axis=1)[:, tf.newaxis]  # (B, 1, N)
    opening = (gaps == token_ids[:, tf.newaxis]) & real[:, tf.newaxis]  # (B, G, N)
    never = shape[1] + 1
    own = tf.where(opening, stretch, never)
    own = tf.reduce_min(own, axis=2, keepdims=True)  # (B, G, 1)
    special = tokenizer.special
    silent = [id for id in (special.pad, special.begin, special.end) if id is not None]
    is_text = real & ~opens & ~_is_among(token_ids, silent)
    inside = (own == stretch) & is_text[:, tf.newaxis]  # (B, G, N)

    size = tf.shape(inside)
    flat = tf.stack([size[0] * size[1], size[2]])
    ids = tf.reshape(tf.repeat(token_ids, size[1], axis=0), flat)
    tokens = select_in_rows(ids, tf.reshape(inside, flat))
    texts = as_utf8(tokenizer.detokenize(tokens))
    return tf.reshape(tf.strings.regex_replace(texts, "^ +| +$", ""), size[:2])


def _gaps(tokenizer: Tokenizer, asked: tf.Tensor) -> Any:
    """Returns the sentinels of texts, int32 (B, G), padded with `_NO_GAP`."""
    gaps = select_in_rows(asked, _is_sentinel(tokenizer, asked))
    return gaps.to_tensor(_NO_GAP)


def _is_sentinel(tokenizer: Tokenizer, ids: tf.Tensor) -> Any:
    return _is_among(ids, list(tokenizer.special.sentinels))


def _is_among(ids: tf.Tensor, some: list[int]) -> Any:
    return tf.reduce_any(tf.expand_dims(ids, -1) == some, axis=-1)
