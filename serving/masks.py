"""`[MASK]` in texts, and pieces as answers, whatever the tokenizer."""

from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.tokenizers.interface import Tokenizer
from pipeline.tokenizers.vocabulary import CONTINUATION, MASK
from pipeline.tokenizers.wordpiece import WordPieceTokenizer
from serving.prompts import as_utf8

_Ragged: Any = tf.RaggedTensor


def tokenize_with_masks(tokenizer: Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """As `tokenize`, but a literal `[MASK]` is the piece that hides a token.

    What stands between two of them is tokenized alone. Spaces before a mask belong to
    the word that it hides, as they belong to the pieces of a word.

    Args:
        tokenizer: Has a mask, whatever it writes for it.
        texts: string (N,).

    Returns:
        int32 (N, None).
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.tokenize_with_masks(texts)
    # The mark in front, so that a text without anything has a part, too.
    parts: Any = tf.strings.split(tf.strings.join([MASK, texts]), MASK)[:, 1:]
    place = tf.ragged.range(parts.row_lengths()).values
    is_last = place == tf.repeat(parts.row_lengths() - 1, parts.row_lengths())
    stripped = tf.strings.regex_replace(parts.values, r" +$", "")
    tokens = tokenizer.tokenize(tf.where(is_last, parts.values, stripped))
    masked = tf.cast(place > 0, tf.int64)
    masks = tf.fill([tf.reduce_sum(masked)], tokenizer.special.mask)
    framed = tf.concat([_Ragged.from_row_lengths(masks, masked), tokens], axis=1)
    return parts.with_values(framed).merge_dims(1, 2)


def answer_pieces(tokenizer: Tokenizer) -> list[bytes]:
    """Each piece as it is answered: a word, or after `##` what continues one.

    That is how WordPiece writes them; others mark the pieces that begin a word.

    Args:
        tokenizer: Any.

    Returns:
        UTF-8, none empty, in the order of the ids.
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        return [piece.encode() for piece in tokenizer.pieces]
    size = tokenizer.vocabulary_size
    alone = _Ragged.from_tensor(tf.range(size)[:, tf.newaxis])
    read = as_utf8(tokenizer.detokenize(alone)).numpy().tolist()
    ordinary = np.zeros(size, bool)
    ordinary[tokenizer.ordinary_ids] = True
    found = []
    for number, (piece, text) in enumerate(zip(tokenizer.pieces, read, strict=True)):
        if not ordinary[number]:
            found.append(piece.encode())
        elif not text.strip(b" "):  # a word's beginning, of which the rest follows
            found.append(b" ")
        elif tokenizer.starts_word[number]:
            found.append(text.lstrip(b" "))
        else:
            found.append(CONTINUATION.encode() + text)
    return found
