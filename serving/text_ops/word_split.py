"""Splits texts into words with their offsets, in the graph, for token classification.

Clients whose text is already split into words send the words. Raw text is split by the
rules of `split_words`, regular expressions that approximate the rules of English
treebanks; `bench.splitting` measures the accuracy.
"""

import re
import string
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.ragged_rows import row_of_each
from transbeam.serving.text_ops.utf8_characters import Characters

_LETTER = r"[\p{L}\p{M}\p{N}_]"
_SPACE = r"[\s\p{Z}\p{C}]"
_RUNS = "|".join(f"{re.escape(mark)}{{2,}}" for mark in string.punctuation)
_NOT = r"[nN]['’][tT]\b"
# Marks a word boundary without a space.
_CUT = "\x02"
# From the special to the general: the first alternative that matches wins.
_WORD = "|".join(
    [
        r"https?://[^\s\p{Z}\p{C}]*[\p{L}\p{N}/]",
        r"\p{N}+(?:[.,:/]\p{N}+)+",  # 1,000 and 3.5, 10:30, 24/7
        r"\p{Han}",
        _NOT,
        rf"{_LETTER}+(?:[.@]{_LETTER}+)*",  # also U.S and a@b.org
        r"['’]\p{L}+",  # the 's of it's
        _RUNS,  # ... and --
        r"[^\p{L}\p{M}\p{N}_\s\p{Z}\p{C}]",
    ]
)


class SplitWords(NamedTuple):
    """The words of texts and their offsets.

    Attributes:
        texts: string (B, None), as written.
        starts: int32 (B, None), the offset of each word's first character, in
            Unicode code points as in Python.
        ends: int32 (B, None), the offset after each word's last character.
    """

    texts: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def split_words(texts: tf.Tensor) -> SplitWords:
    """Splits texts into words.

    A word is a run of letters and digits, a number, a URL, one or more repetitions of a
    punctuation mark, or a Chinese character; an apostrophe begins a new word, and so
    does the "n't" of "don't". Spaces and control characters separate words.

    Args:
        texts: string (B,), any bytes; invalid UTF-8 is not part of any word.

    Example:
    >>> words = split_words(tf.constant(["It's 5.20 in Zürich..."]))
    >>> [word.decode() for word in words.texts[0].numpy()]
    ['It', "'s", '5.20', 'in', 'Zürich', '...']
    >>> words.starts[0].numpy().tolist()
    [0, 2, 5, 10, 13, 19]
    """
    # `regex_split_with_offsets` treats a zero byte as the end of the text.
    texts = tf.strings.regex_replace(texts, rf"[\x00{_CUT}]", " ")
    texts = tf.strings.regex_replace(texts, rf"(\p{{L}})({_NOT})", rf"\1{_CUT}\2")
    words, begins, ends = tf_text.regex_split_with_offsets(
        texts, f"{_WORD}|{_SPACE}+", _WORD
    )
    characters = Characters.from_texts(texts, silent=ord(_CUT))
    text = row_of_each(words)
    edges = [begins.values, ends.values]
    starts, ends = (words.with_values(characters.places(text, at)) for at in edges)
    return SplitWords(words, starts, ends)
