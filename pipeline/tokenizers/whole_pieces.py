"""Pieces that are found whole in a text, before it is cut into words, in the graph."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline.tokenizers.ragged_rows import place_of_each, rows_in_one, side_by_side

_Ragged: Any = tf.RaggedTensor


class WholePieces:
    """Cuts texts at some pieces; what is between two of them is tokenized alone.

    Of pieces that begin at one place the longest is found.

    Args:
        exact: Ids of the pieces that are found as they are written.
        folded: Ids of those that are found in upper and lower case, of ASCII.

    Example:
    >>> whole = WholePieces({"<a>": 7}, {})
    >>> letters = lambda texts: tf.strings.unicode_decode(texts, "UTF-8")
    >>> whole.tokenize(tf.constant(["A<a><a>B", ""]), letters).to_list()
    [[65, 7, 7, 66], []]
    """

    def __init__(self, exact: Mapping[str, int], folded: Mapping[str, int]):
        # Of equally long ones those that are found as they are written come first.
        longest_first = sorted([*exact, *folded], key=len, reverse=True)
        patterns = [
            _in_either_case(piece) if piece in folded else re.escape(piece)
            for piece in longest_first
        ]
        self._any = "|".join(patterns)
        self._one = longest_first[0]
        ids = {_lower(piece): i for piece, i in folded.items()} | dict(exact)
        self._pieces, self._ids = list(ids), list(ids.values())

    def tokenize(
        self, texts: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """The ids of texts.

        Args:
            texts: string (N,), any bytes.
            tokenize: From string (P,) to int32 (P, None), for what is between.

        Returns:
            int32 (N, None).
        """
        # All become one, at which a text can be cut. One in front, so that a text
        # without anything has a part, too.
        of_one = tf.strings.regex_replace(texts, self._any, _literal(self._one))
        joined = tf.strings.join([self._one, of_one])
        parts: Any = tf.strings.split(joined, self._one)[:, 1:]
        # All but the pieces taken away, each on a line of its own; `\C` is any byte.
        listed = tf.strings.regex_replace(texts, rf"\C*?({self._any})|\C+", "\\1\n")
        written = tf.strings.split(listed, "\n").values
        ids = self._ids_of(written)
        found = tf.cast(place_of_each(parts) > 0, tf.int64)
        whole = _Ragged.from_row_lengths(ids, found, validate=False)
        tokens = tokenize(parts.values)
        return rows_in_one(parts.with_values(side_by_side(whole, tokens)))

    def _ids_of(self, written: tf.Tensor) -> tf.Tensor:
        """The ids of pieces as they stand in texts, of others nothing."""
        exact = written[:, tf.newaxis] == self._pieces
        lower = tf.strings.lower(written)[:, tf.newaxis] == self._pieces
        # A piece that is written exactly so goes before one that is not.
        either = exact | (lower & ~tf.reduce_any(exact, axis=1, keepdims=True))
        return tf.gather(tf.constant(self._ids, tf.int32), tf.where(either)[:, 1])


def _lower(piece: str) -> str:
    """As `tf.strings.lower` does it: the letters of ASCII, and no others."""
    return piece.encode().lower().decode()


def _in_either_case(piece: str) -> str:
    """A pattern for it; `(?i)` would take the Kelvin sign for a `k`, too.

    Example:
    >>> _in_either_case("<a1>")
    '<[aA]1>'
    """
    return "".join(
        f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else re.escape(c)
        for c in piece
    )


def _literal(text: str) -> str:
    r"""A text as the other side of a replacement, where `\1` would mean a group."""
    return text.replace("\\", "\\\\")


def whole_pieces_of(
    vocabulary: Sequence[str], exact: Sequence[str], folded: Sequence[str] = ()
) -> WholePieces | None:
    """The pieces of a vocabulary that are found whole; None where there are none."""
    if not exact and not folded:
        return None
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    return WholePieces(
        {piece: ids[piece] for piece in exact}, {piece: ids[piece] for piece in folded}
    )


def tokenize_around(
    whole: WholePieces | None,
    texts: tf.Tensor,
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor],
) -> tf.RaggedTensor:
    """The ids of texts, in which some pieces may be found whole."""
    return tokenize(texts) if whole is None else whole.tokenize(texts, tokenize)
