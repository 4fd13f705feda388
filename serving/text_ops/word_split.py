"""Texts as words with their places, in the graph: what a tagger is asked about.

Who has words already gives them as they are. For raw text these rules stand in, which
are those of English treebanks as far as regular expressions go; `bench.splitting` says
how far that is.
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
# Stands before what is a word of its own and has no space there.
_CUT = "\x02"
# From the special to the general: the first that fits is taken.
_WORD = "|".join(
    [
        r"https?://[^\s\p{Z}\p{C}]*[\p{L}\p{N}/]",
        r"\p{N}+(?:[.,:/]\p{N}+)+",  # 1,000 and 3.5, 10:30, 24/7
        r"\p{Han}",
        _NOT,
        rf"{_LETTER}+(?:[.@]{_LETTER}+)*",  # also U.S and a@b.org
        r"['’]\p{L}+",  # of it's
        _RUNS,  # ... and --
        r"[^\p{L}\p{M}\p{N}_\s\p{Z}\p{C}]",
    ]
)


class SplitWords(NamedTuple):
    """Words of texts and where they stand.

    Attributes:
        texts: string (B, None), as written.
        starts: int32 (B, None). The place of each word's first character, counted in
            Unicode code points as Python counts.
        ends: int32 (B, None). The place after its last.
    """

    texts: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def split_words(texts: tf.Tensor) -> SplitWords:
    """The words of texts.

    A word is a run of letters and digits, a number, an address of the web, a mark or a
    run of one mark, or a Chinese character; what follows an apostrophe is a word of its
    own, and so is the "n't" of "don't". Spaces and control characters stand between.

    Args:
        texts: string (B,), any bytes; what is not UTF-8 sticks to no word.

    Example:
    >>> words = split_words(tf.constant(["It's 5.20 in Zürich..."]))
    >>> [word.decode() for word in words.texts[0].numpy()]
    ['It', "'s", '5.20', 'in', 'Zürich', '...']
    >>> words.starts[0].numpy().tolist()
    [0, 2, 5, 10, 13, 19]
    """
    # The splitter takes a zero byte for the end of the text.
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
