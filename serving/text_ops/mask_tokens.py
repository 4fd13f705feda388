"""Literal special tokens in texts, and the output text of tokens, in the graph."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    concatenate_ragged,
    flatten_rows,
    positions_in_rows,
)
from transbeam.pipeline.tokenizers.base.vocabulary import CONTINUATION, MASK
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.text_ops.prompts import as_utf8

_Ragged: Any = tf.RaggedTensor


def tokenize_with_masks(tokenizer: Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Tokenizes texts in which a literal `[MASK]` is the mask token.

    See `tokenize_with_marks`.

    Args:
        tokenizer: A tokenizer with a mask token, whose name in the vocabulary need not
            be `[MASK]`.
        texts: string (N,).

    Returns:
        int32 (N, None).
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.tokenize_with_masks(texts)
    mask = tokenizer.special.mask
    assert mask is not None
    return tokenize_with_marks(tokenizer, texts, {MASK: mask})


def tokenize_with_marks(
    tokenizer: Tokenizer, texts: tf.Tensor, marks: Mapping[str, int]
) -> tf.RaggedTensor:
    """Tokenizes texts in which some literals are special tokens.

    The text between two such literals is tokenized separately. Spaces before a literal
    are dropped, because the literal replaces text whose tokens would include these
    spaces.

    Args:
        tokenizer: Any tokenizer.
        texts: string (N,).
        marks: The ids of the literals; at least one.

    Returns:
        int32 (N, None).
    """
    any_mark = "|".join(map(re.escape, marks))
    one, *_ = marks
    # A literal is added in front, so that an empty text has a part, too.
    texts_of_one = tf.strings.regex_replace(texts, any_mark, one)
    parts: Any = tf.strings.split(tf.strings.join([one, texts_of_one]), one)[:, 1:]
    index = positions_in_rows(parts)
    is_last = index == tf.repeat(parts.row_lengths() - 1, parts.row_lengths())
    stripped = tf.strings.regex_replace(parts.values, r" +$", "")
    tokens = tokenizer.tokenize(tf.where(is_last, parts.values, stripped))
    # Keeps the literals alone, one per line; `\C` is any byte.
    listed = tf.strings.regex_replace(texts, rf"\C*?({any_mark})|\C+", "\\1\n")
    written = tf.strings.split(listed, "\n").values[:, tf.newaxis]
    which = tf.where(written == list(marks))[:, 1]
    ids = tf.gather(list(marks.values()), which)
    marked = _Ragged.from_row_lengths(ids, tf.cast(index > 0, tf.int64))
    framed = concatenate_ragged(marked, tokens)
    return flatten_rows(parts.with_values(framed))


def answer_pieces(tokenizer: Tokenizer) -> list[bytes]:
    """Returns each token as output text: a word, or `##` and a continuation.

    The prefix `##` is WordPiece's convention; other tokenizers mark the pieces that
    begin a word.

    Args:
        tokenizer: Any tokenizer.

    Returns:
        The output text of each token, UTF-8, never empty, in the order of the ids.
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
        elif not text.strip(b" "):  # the space before a word
            found.append(b" ")
        elif tokenizer.starts_word[number]:
            found.append(text.lstrip(b" "))
        else:
            found.append(CONTINUATION.encode() + text)
    return found
