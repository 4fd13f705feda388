"""Strings that end a text, whatever pieces they are made of, in the graph."""

from typing import NamedTuple

import tensorflow as tf

# Stands between the strings of one row: ASCII's "unit separator", made for this.
SEPARATOR = "\x1f"
# Strings of one text: each is looked for after each token.
MOST = 256


class StopStrings(NamedTuple):
    """The strings that end each text.

    Attributes:
        strings: string (B, S), empty where there is none.
    """

    strings: tf.Tensor

    @classmethod
    def from_joined(cls, joined: tf.Tensor) -> "StopStrings":
        """From strings (B,): several of one row with `SEPARATOR` between them.

        Fails in the graph with `InvalidArgument` where a row has more than `MOST`.
        """
        strings = tf.strings.split(joined, SEPARATOR).to_tensor("")  # (B, S)
        number = tf.reduce_sum(tf.cast(strings != "", tf.int32), axis=1)
        most = tf.reduce_max(tf.pad(number, [[0, 1]]))
        said = tf.strings.format(
            f"stop: a text has {{}} strings; expected {MOST} at most", most
        )
        with tf.control_dependencies([tf.debugging.Assert(most <= MOST, [said])]):
            return cls(tf.identity(strings))

    @property
    def longest(self) -> tf.Tensor:
        """Bytes of the longest: int32 scalar."""
        lengths = tf.reshape(tf.strings.length(self.strings), [-1])
        return tf.reduce_max(tf.pad(lengths, [[0, 1]]))

    def find(self, texts: tf.Tensor, since: tf.Tensor) -> tf.Tensor:
        r"""Finds the first string in each text, of those that have just come.

        A string that is longer than the text is not looked at, so the work is by the
        length of texts, and of strings that may be in them.

        Args:
            texts: string (B,).
            since: int32 (B,), bytes after which a string has to end.

        Returns:
            int32 (B,), the byte that it begins at, or the text's length.

        Example:
        >>> stops = StopStrings.from_joined(tf.constant(["b\x1fd", "", "x", "b"]))
        >>> texts = tf.constant(["abcd", "abcd", "abcd", "abcd"])
        >>> stops.find(texts, tf.constant([0, 0, 0, 2])).numpy().tolist()
        [1, 4, 4, 4]
        """
        ends = tf.strings.length(texts)
        since = tf.clip_by_value(since, 0, ends)
        lengths = tf.strings.length(self.strings)
        possible = (lengths > 0) & (lengths <= ends[:, None])
        chosen = tf.cast(tf.where(possible), tf.int32)  # (P, 2), text and string
        rows, strings = chosen[:, 0], tf.gather_nd(self.strings, chosen)
        sizes = tf.strings.length(strings)
        # Of a text only as much is copied as the longest of these reaches back.
        reach = tf.reduce_max(tf.pad(sizes, [[0, 1]]))
        cut = tf.maximum(since - reach, 0)
        tails = tf.strings.substr(texts, cut, ends - cut)
        width = tf.reduce_max(tf.pad(ends - since, [[0, 1]]))
        steps = tf.range(1, width + 1)[None]  # (1, W)
        stop_ends = tf.gather(since, rows)[:, None] + steps  # (P, W)
        begins = stop_ends - sizes[:, None]
        inside = (begins >= 0) & (stop_ends <= tf.gather(ends, rows)[:, None])
        found = tf.strings.substr(
            tf.repeat(tf.gather(tails, rows)[:, None], width, axis=1),
            tf.where(inside, begins - tf.gather(cut, rows)[:, None], 0),
            tf.where(inside, sizes[:, None], 0),
        )
        same = inside & (found == strings[:, None])
        last = tf.gather(ends, rows)[:, None]
        places = tf.reduce_min(tf.where(same, begins, last), axis=1)
        return tf.tensor_scatter_nd_min(ends, rows[:, None], places)
