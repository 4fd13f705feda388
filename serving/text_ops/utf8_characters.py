"""Converts between byte and character offsets of texts, in the graph.

`tf.strings.substr` and `tf.strings.length` need a copy of the text for each span, so
their cost for all words of a long text is quadratic in its length. This module instead
concatenates the bytes of all texts once.
"""

from typing import NamedTuple

import tensorflow as tf

_SINGLE_BYTES = [bytes([byte]) for byte in range(256)]
# As signed numbers, UTF-8 continuation bytes are those below this one.
_FIRST_BYTE = -64


class Characters(NamedTuple):
    """The characters of B texts.

    Attributes:
        values: uint8 (N,), the bytes of all texts.
        starts: int64 (B,), the offset of each text in the bytes of all texts.
        before: int32 (N + 1,), the number of characters that begin before each byte.
    """

    values: tf.Tensor
    starts: tf.Tensor
    before: tf.Tensor

    @classmethod
    def from_texts(cls, texts: tf.Tensor, silent: int | None = None) -> "Characters":
        """Counts the characters of texts.

        Continuation bytes are not counted, as in TensorFlow, even where the first byte
        of the character is missing.

        Args:
            texts: string (B,), any bytes.
            silent: A byte value that is not counted, besides continuation bytes.
        """
        lengths = tf.cast(tf.strings.length(texts), tf.int64)
        values = tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)
        begins = tf.bitcast(values, tf.int8) >= _FIRST_BYTE
        if silent is not None:
            begins &= values != silent
        before = tf.cumsum(tf.cast(begins, tf.int32))
        starts = tf.cumsum(lengths, exclusive=True)
        return cls(values, starts, tf.concat([[0], before], axis=0))

    def places(self, text: tf.Tensor, bytes_before: tf.Tensor) -> tf.Tensor:
        """Converts byte offsets in texts to character offsets, int32 (P,).

        Args:
            text: int64 (P,), the index of the text.
            bytes_before: int64 (P,), the byte offset in that text.

        Example:
        >>> characters = Characters.from_texts(tf.constant(["a", "éa"]))
        >>> characters.places([1, 1], [0, 2]).numpy().tolist()
        [0, 1]
        """
        start = tf.gather(self.starts, text)
        first = tf.gather(self.before, start)
        return tf.gather(self.before, start + bytes_before) - first

    def stretches(
        self, text: tf.Tensor, begins: tf.Tensor, ends: tf.Tensor
    ) -> tf.Tensor:
        r"""Returns substrings of texts by character offsets, string (P,).

        Args:
            text: int64 (P,), the index of the text.
            begins: int32 (P,), the index of the first character.
            ends: int32 (P,), the index after the last character.

        Example:
        >>> characters = Characters.from_texts(tf.constant(["a", "éa"]))
        >>> characters.stretches([1, 1], [0, 1], [1, 2]).numpy().tolist()
        [b'\xc3\xa9', b'a']
        """
        first = tf.gather(self.before, tf.gather(self.starts, text))
        # The last byte with that number of characters before it: the first of one.
        edges = tf.searchsorted(
            self.before, tf.concat([first + begins, first + ends], 0), side="right"
        )
        begin, end = tf.split(edges - 1, 2)
        places = tf.ragged.range(begin, end)
        letters = tf.gather(
            _SINGLE_BYTES, tf.cast(tf.gather(self.values, places.values), tf.int32)
        )
        owners = tf.repeat(tf.range(tf.size(begin)), end - begin)
        return tf.strings.unsorted_segment_join(letters, owners, tf.size(begin))
