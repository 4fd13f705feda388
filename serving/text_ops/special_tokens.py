"""Special tokens that clients write as literals in a text, in the graph."""

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    place_of_each,
    rows_in_one,
    side_by_side,
)

_Ragged: Any = tf.RaggedTensor


def tokenize_with_marks(
    tokenizer: Tokenizer, texts: tf.Tensor, marks: Mapping[str, int]
) -> tf.RaggedTensor:
    """Tokenizes texts in which some literals are special tokens.

    The text between two of them is tokenized separately. Spaces before a literal are
    dropped, because it replaces text that would include them, as a word's tokens do.

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
    index = place_of_each(parts)
    is_last = index == tf.repeat(parts.row_lengths() - 1, parts.row_lengths())
    stripped = tf.strings.regex_replace(parts.values, r" +$", "")
    tokens = tokenizer.tokenize(tf.where(is_last, parts.values, stripped))
    # Keeps the literals alone, one per line; `\C` is any byte.
    listed = tf.strings.regex_replace(texts, rf"\C*?({any_mark})|\C+", "\\1\n")
    written = tf.strings.split(listed, "\n").values[:, tf.newaxis]
    which = tf.where(written == list(marks))[:, 1]
    ids = tf.gather(list(marks.values()), which)
    marked = _Ragged.from_row_lengths(ids, tf.cast(index > 0, tf.int64))
    framed = side_by_side(marked, tokens)
    return rows_in_one(parts.with_values(framed))
