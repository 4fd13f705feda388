"""Stop strings, found in the generated text across token boundaries, in the graph."""

from typing import NamedTuple

import tensorflow as tf

# Separates the strings of one row: ASCII's "unit separator".
SEPARATOR = "\x1f"
# Maximum strings per text: each is searched for after each token.
MOST = 256


class StopStrings(NamedTuple):
    """The stop strings of each text.

    Attributes:
        strings: string (B, S), padded with `""`.
    """

    strings: tf.Tensor

    @classmethod
    def from_joined(cls, joined: tf.Tensor) -> "StopStrings":
        """Splits strings (B,) at `SEPARATOR`, which joins the stop strings of a text.

        Fails in the graph with `InvalidArgument` if a text has more than `MOST` stop
        strings.
        """
        strings = tf.strings.split(joined, SEPARATOR).to_tensor("")  # (B, S)
        number = tf.reduce_sum(tf.cast(strings != "", tf.int32), axis=1)
        most = tf.reduce_max(tf.pad(number, [[0, 1]]))
        message = tf.strings.format(
            f"stop: a text has {{}} strings; expected {MOST} at most", most
        )
        with tf.control_dependencies([tf.debugging.Assert(most <= MOST, [message])]):
            return cls(tf.identity(strings))

    @property
    def longest(self) -> tf.Tensor:
        """The number of bytes of the longest string: int32 scalar."""
        lengths = tf.reshape(tf.strings.length(self.strings), [-1])
        return tf.reduce_max(tf.pad(lengths, [[0, 1]]))

    def find(self, texts: tf.Tensor, since: tf.Tensor) -> tf.Tensor:
        r"""Finds the first stop string in each text that ends after byte `since`.

        Strings longer than the text are skipped, so the cost depends on the lengths of
        the texts and of the strings that fit.

        Args:
            texts: string (B,).
            since: int32 (B,), the byte offset after which a stop string has to end.

        Returns:
            int32 (B,), the byte offset at which the stop string begins; the text's
            length if no stop string is found.

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
        # Only the tail that the longest of these can reach is copied.
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
        positions = tf.reduce_min(tf.where(same, begins, last), axis=1)
        return tf.tensor_scatter_nd_min(ends, rows[:, None], positions)
