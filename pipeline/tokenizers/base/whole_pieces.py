"""Pieces that are found whole in a text, before it is cut into words, in the graph."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.offsets import TokenOffsets
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    place_of_each,
    rows_in_one,
    side_by_side,
)

_Ragged: Any = tf.RaggedTensor

# No byte of UTF-8.
_CUT = b"\xff"


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
        ids = {_lower(piece): i for piece, i in folded.items()} | dict(exact)
        self._pieces, self._ids = list(ids), list(ids.values())

    def tokenize(
        self, texts: tf.Tensor, tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """The ids of texts.

        Args:
            texts: string (N,), any bytes; what is not UTF-8 becomes U+FFFD.
            tokenize: From string (P,) to int32 (P, None), for what is between.

        Returns:
            int32 (N, None).
        """
        # A byte at which a text can be cut, for no text has it. One in front, so that a
        # text without anything has a part, too.
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        cut = tf.strings.regex_replace(texts, self._any, _CUT)
        parts: Any = tf.strings.split(tf.strings.join([_CUT, cut]), _CUT)[:, 1:]
        # All but the pieces taken away, each on a line of its own; `\C` is any byte.
        listed = tf.strings.regex_replace(texts, rf"\C*?({self._any})|\C+", "\\1\n")
        written = tf.strings.split(listed, "\n").values
        ids = self._ids_of(written)
        found = tf.cast(place_of_each(parts) > 0, tf.int64)
        whole = _Ragged.from_row_lengths(ids, found, validate=False)
        tokens = tokenize(parts.values)
        return rows_in_one(parts.with_values(side_by_side(whole, tokens)))

    def tokenize_with_offsets(
        self,
        texts: Sequence[str],
        tokenize: Callable[[list[str]], list[TokenOffsets]],
    ) -> list[TokenOffsets]:
        """The tokens of texts with the characters that they stand for.

        Args:
            texts: Without surrogates.
            tokenize: Does it with what is between the pieces.
        """
        cuts = [self._cut(text) for text in texts]
        parts = iter(tokenize([part for cut in cuts for part in cut[::2]]))
        return [self._put_together(cut, parts) for cut in cuts]

    def _cut(self, text: str) -> list[str]:
        """Splits a text into what lies between pieces and, in turn, the pieces.

        Example:
        >>> WholePieces({"<a>": 7}, {})._cut("A<a><a>B")
        ['A', '<a>', '', '<a>', 'B']
        """
        return re.split(f"({self._any})", text)

    def _put_together(
        self, cut: Sequence[str], parts: Iterator[TokenOffsets]
    ) -> TokenOffsets:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        at = 0
        for i, part in enumerate(cut):
            found = self._piece(part) if i % 2 else next(parts)
            ids += found.ids
            offsets += [(at + start, at + end) for start, end in found.offsets]
            at += len(part)
        return TokenOffsets(ids, offsets)

    def _piece(self, written: str) -> TokenOffsets:
        known = dict(zip(self._pieces, self._ids, strict=True))
        found = known[written] if written in known else known[_lower(written)]
        return TokenOffsets([found], [(0, len(written))])

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


def offsets_around(
    whole: WholePieces | None,
    texts: Sequence[str],
    tokenize: Callable[[Sequence[str]], list[TokenOffsets]],
) -> list[TokenOffsets]:
    """The tokens and offsets of texts, in which some pieces may be found whole."""
    if whole is None:
        return tokenize(texts)
    return whole.tokenize_with_offsets(texts, tokenize)
