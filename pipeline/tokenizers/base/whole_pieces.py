"""Matches added tokens in texts before tokenization, in the graph."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.base.interface import TokenOffsets
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    concatenate_ragged,
    flatten_rows,
    positions_in_rows,
)

_Ragged: Any = tf.RaggedTensor

# A byte that UTF-8 never contains.
_CUT = b"\xff"


class WholePieces:
    """Splits texts at added tokens and tokenizes the text between them.

    At each position the longest added token matches.

    Args:
        exact: Ids of the tokens that match exactly.
        folded: Ids of the tokens that match case-insensitively, for ASCII letters.

    Example:
    >>> whole = WholePieces({"<a>": 7}, {})
    >>> letters = lambda texts: tf.strings.unicode_decode(texts, "UTF-8")
    >>> whole.tokenize(tf.constant(["A<a><a>B", ""]), letters).to_list()
    [[65, 7, 7, 66], []]
    """

    def __init__(self, exact: Mapping[str, int], folded: Mapping[str, int]):
        # Exact ones precede folded ones of the same length.
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
        """Tokenizes texts.

        Args:
            texts: string (N,), any bytes; invalid UTF-8 becomes U+FFFD.
            tokenize: Tokenizes the P strings between added tokens: maps string (P,) to
                int32 (P, None).

        Returns:
            int32 (N, None).
        """
        # Splits at a byte that no text contains. One is prepended, so that an empty
        # text has a part, too.
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        cut = tf.strings.regex_replace(texts, self._any, _CUT)
        parts: Any = tf.strings.split(tf.strings.join([_CUT, cut]), _CUT)[:, 1:]
        # Keeps only the added tokens, one per line; `\C` is any byte.
        listed = tf.strings.regex_replace(texts, rf"\C*?({self._any})|\C+", "\\1\n")
        written = tf.strings.split(listed, "\n").values
        ids = self._ids_of(written)
        found = tf.cast(positions_in_rows(parts) > 0, tf.int64)
        whole = _Ragged.from_row_lengths(ids, found, validate=False)
        tokens = tokenize(parts.values)
        return flatten_rows(parts.with_values(concatenate_ragged(whole, tokens)))

    def tokenize_with_offsets(
        self,
        texts: Sequence[str],
        tokenize: Callable[[list[str]], list[TokenOffsets]],
    ) -> list[TokenOffsets]:
        """Tokenizes texts with character offsets.

        Args:
            texts: Texts without surrogates.
            tokenize: Tokenizes the strings between added tokens, with offsets.
        """
        cuts = [self._cut(text) for text in texts]
        parts = iter(tokenize([part for cut in cuts for part in cut[::2]]))
        return [self._put_together(cut, parts) for cut in cuts]

    def _cut(self, text: str) -> list[str]:
        """Splits a text into a list of ordinary text and added tokens, alternately.

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
        """Returns the ids of the strings that are added tokens; omits other strings."""
        exact = written[:, tf.newaxis] == self._pieces
        lower = tf.strings.lower(written)[:, tf.newaxis] == self._pieces
        # An exact match precedes a case-insensitive one.
        either = exact | (lower & ~tf.reduce_any(exact, axis=1, keepdims=True))
        return tf.gather(tf.constant(self._ids, tf.int32), tf.where(either)[:, 1])


def _lower(piece: str) -> str:
    """Lowercases ASCII letters only, like `tf.strings.lower`."""
    return piece.encode().lower().decode()


def _in_either_case(piece: str) -> str:
    """Returns a case-insensitive pattern without `(?i)`, with which `k` matches U+212A.

    Example:
    >>> _in_either_case("<a1>")
    '<[aA]1>'
    """
    return "".join(
        f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else re.escape(c)
        for c in piece
    )
