"""WordPiece inside a TFLite file, with tf-text's ops.

If the runtime has tf-text's ops, an app passes a text and needs no tokenizer. In
Python: `InterpreterWithCustomOps(custom_op_registerers=SELECT_TFTEXT_OPS)`, of
`tensorflow_text.tflite_registrar`. The converter needs `allow_custom_ops`.
"""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.base.text_frame import TextFrame, encoder_frame
from transbeam.pipeline.tokenizers.base.vocabulary import MAXIMUM_WORD_CHARACTERS
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
    fast_wordpiece,
)
from transbeam.serving.phone.tokenizer.bert_normalizer_table import normalizer_file

# The custom ops of a file with text input.
CUSTOM_OPS = frozenset(
    {
        "FastBertNormalize",
        "FastWordpieceTokenizeWithOffsets",
        "TFText>ByteSplitWithOffsets",
        "TFText>WhitespaceTokenizeWithOffsetsV2",
    }
)
_CONTINUES = 0b10  # the first bits of a UTF-8 continuation byte


class GraphWordPiece(tf.Module):
    """Tokenizes one text as the model's own tokenizer does.

    The ids differ from those of the model's tokenizer only if the combining marks of a
    letter are not in Unicode's canonical order and one of these marks is kept when
    accents are stripped (about 80 rare marks), because the normalization op processes
    single code points. A text has to be UTF-8. `[MASK]` in a text is ordinary text.

    Args:
        tokenizer: The model's own.
        frame: The special tokens of a text; left out, those of an encoder.

    Example:
    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##able", "!"]
    >>> tokenizer = GraphWordPiece(WordPieceTokenizer(pieces))
    >>> row = tokenizer.row(tf.constant(["Ünable!"]), 8)
    >>> row["token_ids"].numpy().tolist(), row["padding_mask"].numpy().tolist()
    ([[2, 5, 6, 7, 3, 0, 0, 0]], [[1, 1, 1, 1, 1, 0, 0, 0]])
    """

    def __init__(
        self, tokenizer: WordPieceTokenizer, frame: TextFrame | None = None
    ) -> None:
        super().__init__(name="graph_wordpiece")
        self._special = tokenizer.special
        self._frame = frame or encoder_frame(tokenizer.special)
        self._normalizer = tf_text.FastBertNormalizer()
        # Its constructor has no argument for another table.
        self._normalizer._model = tf.constant(normalizer_file(tokenizer))
        self._splitter = tf_text.WhitespaceTokenizer()
        self._bytes = tf_text.ByteSplitter()
        self._wordpiece = fast_wordpiece(tokenizer.pieces)

    def ids(self, text: tf.Tensor) -> tf.Tensor:
        """Returns the ids of a text, without special tokens.

        Args:
            text: string (1,), UTF-8.

        Returns:
            int32 (T,).
        """
        words = self._splitter.tokenize(self._normalizer.normalize(text)).flat_values
        pieces = self._wordpiece.tokenize(words)  # (W, None)
        starts = tf.cast(pieces.row_splits[:-1], tf.int32)
        indices = tf.expand_dims(starts, 1)
        size = tf.expand_dims(tf.size(pieces.flat_values), 0)
        is_first = tf.scatter_nd(indices, tf.ones_like(starts), size)
        # A word that is too long is one unknown token. The op counts bytes.
        too_long = self._characters(words) > MAXIMUM_WORD_CHARACTERS
        too_long = tf.gather(too_long, tf.cumsum(is_first) - 1)
        ids = tf.where(too_long, self._special.unknown, pieces.flat_values)
        kept = tf.where(tf.logical_not(too_long) | (is_first > 0))
        return tf.gather_nd(ids, kept)

    def row(self, text: tf.Tensor, length: int) -> dict[str, tf.Tensor]:
        """Returns a text with its special tokens, padded, and truncated if too long.

        Args:
            text: string (1,), UTF-8.
            length: Length of the row, at least 2.

        Returns:
            `token_ids` and `padding_mask`, int32 (1, length).
        """
        special = self._special
        kept = self.ids(text)[: length - self._frame.size()]
        parts = [self._frame.before, kept, self._frame.after]
        framed: Any = tf.concat(
            [
                tf.constant([part]) if isinstance(part, int) else part
                for part in parts
                if part is not None
            ],
            axis=0,
        )
        if self._frame.alone is not None and self._frame.size() == 0:
            missing = tf.fill([1 - tf.minimum(tf.size(kept), 1)], self._frame.alone)
            framed = tf.concat([framed, missing], axis=0)
        padding = [[0, length - tf.size(framed)]]
        padded = tf.pad(framed, padding, constant_values=special.pad)
        mask = tf.pad(tf.ones_like(framed), padding)
        shape = [1, length]
        return {
            "token_ids": tf.reshape(padded, shape),
            "padding_mask": tf.reshape(mask, shape),
        }

    def _characters(self, words: tf.Tensor) -> tf.Tensor:
        """Counts the characters of each word, int32 (W,)."""
        content = self._bytes.split(words)
        begins = tf.cast(content.flat_values, tf.int32) // 64 != _CONTINUES
        before = tf.cumsum(tf.cast(begins, tf.int32))
        before = tf.concat([[0], before], axis=0)
        at = tf.gather(before, tf.cast(content.row_splits, tf.int32))
        return at[1:] - at[:-1]
