"""`[MASK]` in input texts, and tokens as output pieces, for any tokenizer."""

from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import CONTINUATION, MASK
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.serving.text_ops.prompts import as_utf8
from transbeam.serving.text_ops.special_tokens import tokenize_with_marks

_Ragged: Any = tf.RaggedTensor


def tokenize_with_masks(tokenizer: Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Tokenizes texts in which a literal `[MASK]` is the mask token.

    See `tokenize_with_marks`.

    Args:
        tokenizer: Has a mask token, which may be written differently.
        texts: string (N,).

    Returns:
        int32 (N, None).
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        return tokenizer.tokenize_with_masks(texts)
    mask = tokenizer.special.mask
    assert mask is not None
    return tokenize_with_marks(tokenizer, texts, {MASK: mask})


def answer_pieces(tokenizer: Tokenizer) -> list[bytes]:
    """Returns the output form of each token: a word, or `##` and a continuation.

    This is WordPiece's convention; other tokenizers mark the pieces that begin a word.

    Args:
        tokenizer: Any tokenizer.

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
        elif not text.strip(b" "):  # the space before a word
            found.append(b" ")
        elif tokenizer.starts_word[number]:
            found.append(text.lstrip(b" "))
        else:
            found.append(CONTINUATION.encode() + text)
    return found
