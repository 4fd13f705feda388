"""Strings that end a text, whatever pieces they are made of, in the graph."""

from typing import Any, NamedTuple

import tensorflow as tf

# Stands between the strings of one row: ASCII's "unit separator", made for this.
SEPARATOR = "\x1f"
_NOTHING = -1


class Stops(NamedTuple):
    """The strings that end each text, byte by byte.

    Attributes:
        values: int32 (B, S, L), -1 after the last byte of each.
        lengths: int32 (B, S), 0 where there is none.
    """

    values: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def of(cls, joined: tf.Tensor) -> "Stops":
        """From strings (B,): several of one row with `SEPARATOR` between them."""
        strings = tf.strings.split(joined, SEPARATOR).to_tensor("")  # (B, S)
        strings = tf.pad(strings, [[0, 0], [0, 1]])  # at least one
        values = _bytes(tf.reshape(strings, [-1]), width=1)
        shape = tf.concat([tf.shape(strings), tf.shape(values)[1:]], axis=0)
        lengths = tf.strings.length(strings)
        return cls(tf.reshape(values, shape), lengths)

    def find(self, texts: tf.Tensor) -> tf.Tensor:
        r"""Where the first of them begins in each text.

        Args:
            texts: string (B,).

        Returns:
            int32 (B,), in bytes; the text's length where none is in it.

        Example:
        >>> stops = Stops.of(tf.constant(["b\x1fd", "", "x"]))
        >>> stops.find(tf.constant(["abcd", "abcd", "abcd"])).numpy().tolist()
        [1, 4, 4]
        """
        length = tf.shape(self.values)[2]
        letters = _bytes(texts, width=1)
        size = tf.shape(letters)[1]
        beyond = tf.fill([tf.shape(letters)[0], length], _NOTHING)
        letters = tf.concat([letters, beyond], axis=1)
        offsets = tf.range(size)[:, None] + tf.range(length)[None]  # (N, L)
        windows = tf.gather(letters, offsets, axis=1)[:, None]  # (B, 1, N, L)
        values = self.values[:, :, None]  # (B, S, 1, L)
        same = tf.reduce_all((windows == values) | (values == _NOTHING), axis=3)
        found = same & (self.lengths > 0)[:, :, None]  # (B, S, N)
        places = tf.where(tf.reduce_any(found, axis=1), tf.range(size), size)
        ends = tf.strings.length(texts)
        return tf.minimum(tf.reduce_min(places, axis=1), ends)

    def are_in(self, texts: tf.Tensor) -> tf.Tensor:
        """Whether one of them is in each text: bool (B,)."""
        return self.find(texts) < tf.strings.length(texts)


def _bytes(texts: tf.Tensor, width: int) -> tf.Tensor:
    """int32 (N, W), the bytes of each text, then -1; at least `width` wide."""
    letters: Any = tf.strings.bytes_split(texts)
    values = tf.cast(tf.io.decode_raw(letters.values, tf.uint8), tf.int32)
    rows = letters.with_values(tf.reshape(values, [-1]))
    longest = tf.reduce_max(tf.pad(rows.row_lengths(), [[0, 1]]))
    shape = tf.stack([-1, tf.maximum(longest, width)])
    return rows.to_tensor(_NOTHING, shape=shape)
