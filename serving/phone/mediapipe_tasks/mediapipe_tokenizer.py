"""Texts as MediaPipe's tokenizers read them, which is not always as ours do.

Its `BertTokenizer` makes lower case of ASCII letters alone, strips no accents, deletes
no control characters, and gives up words of more than 100 bytes, where ours give up
those of more than 100 characters. White space to it is that of ASCII. Its
`SentencePieceTokenizer` is the library itself, but for the lower case. Tests hold this
against MediaPipe itself.
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
    """Gives the ids that MediaPipe gives, with what a `TextEncoder` needs.

    Args:
        tokenizer: Of WordPiece or SentencePiece.

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
        """Ids of texts (N,), UTF-8: int32 (N, None), without the pieces around."""
        lower = tf.strings.lower(texts)  # A to Z alone
        if self._wordpiece is None:
            return self.tokenizer.tokenize(lower)
        words = tf_text.regex_split(lower, _BETWEEN, _ALONE)
        return self._wordpiece.tokenize(words).merge_dims(1, -1)
