"""Reimplements MediaPipe's tokenizers, which differ from ours in some texts.

Its `BertTokenizer` lowercases ASCII letters only, strips no accents, deletes no control
characters, and replaces words of more than 100 bytes by `[UNK]`, where ours replaces
those of more than 100 characters. Its white space is that of ASCII. Its
`SentencePieceTokenizer` is the library itself, except for lowercasing. Tests compare
this module with MediaPipe itself.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.interface import SpecialIds, Tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
    fast_wordpiece,
)

_MAXIMUM_WORD_BYTES = 100
# Words of their own: punctuation and Chinese characters.
_ALONE = (
    r"[!-/:-@\[-`{-~\p{P}"
    r"\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2ceaf}"
    r"\x{f900}-\x{faff}\x{2f800}-\x{2fa1f}]"
)
_BETWEEN = rf"\s+|{_ALONE}"


class MediaPipeReading:
    """Tokenizes as MediaPipe does, with the interface that a `TextEncoder` needs.

    Args:
        tokenizer: A WordPiece or SentencePiece tokenizer.

    Example:
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"]
    >>> reading = MediaPipeReading(WordPieceTokenizer(pieces))
    >>> reading.tokenize(tf.constant(["Unable!", "unáble"])).to_list()
    [[5, 6, 7], [1]]
    """

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.special: SpecialIds = tokenizer.special
        self._wordpiece = None
        if isinstance(tokenizer, WordPieceTokenizer):
            pieces = tokenizer.vocabulary
            self._wordpiece = fast_wordpiece(pieces, _MAXIMUM_WORD_BYTES)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Tokenizes texts (N,), UTF-8: int32 (N, None), without special tokens."""
        lower = tf.strings.lower(texts)  # A to Z alone
        if self._wordpiece is None:
            return self.tokenizer.tokenize(lower)
        words = tf_text.regex_split(lower, _BETWEEN, _ALONE)
        return self._wordpiece.tokenize(words).merge_dims(1, -1)
