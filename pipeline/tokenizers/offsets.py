"""The characters of a text that each of its tokens stands for.

An offset is a pair `(start, end)`: `text[start:end]` is what the token was made from,
in the text as it was given, before any normalization. A token of half a character has
all of it. A space that a tokenizer puts before a text is none of it, and a token that
is nothing else stands for nothing, `(0, 0)`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from transbeam.pipeline.tokenizers.vocabulary import CONTINUATION

_SURROGATES = re.compile("[\ud800-\udfff]")
# What ends a word after normalization, which makes all other white space spaces.
_WORD = re.compile(r"[^ \t\n\r]+")


class TokenOffsets(NamedTuple):
    """The tokens of a text and where they are in it.

    Attributes:
        ids: As `tokenize` gives them.
        offsets: Start and end of each in the text, in characters (code points).
    """

    ids: list[int]
    offsets: list[tuple[int, int]]


def encodable(texts: Sequence[str]) -> list[str]:
    """Texts of the same lengths without surrogates, for which there is no UTF-8."""
    return [_SURROGATES.sub("\ufffd", text) for text in texts]


def in_characters(
    text: str, starts: np.ndarray, ends: np.ndarray
) -> list[tuple[int, int]]:
    """Offsets in the bytes of a text as offsets in its characters.

    Args:
        text: The text.
        starts: int64 `(T,)`. Where each token begins in the text's UTF-8.
        ends: int64 `(T,)`. Where it ends.

    Example:
    >>> in_characters("né!", np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]))
    [(0, 1), (1, 2), (1, 2), (2, 3)]
    """
    raw = np.frombuffer(text.encode("utf-8"), np.uint8)
    begun = np.concatenate([[0], np.cumsum((raw & 0xC0) != 0x80)])  # at each byte
    within = np.minimum(starts + 1, len(raw))
    first = np.where(starts < ends, begun[within] - 1, begun[starts])
    return list(zip(first.tolist(), begun[ends].tolist(), strict=True))


def of_sizes(text: str, sizes: np.ndarray) -> list[tuple[int, int]]:
    """The offsets of tokens that are the bytes of a text, one after the other.

    Args:
        text: The text.
        sizes: int64 `(T,)`. How many bytes each has; a byte more in all than the text
            where a space was put before it.
    """
    ends = np.cumsum(sizes) - (sizes.sum() - len(text.encode("utf-8")))
    return in_characters(text, np.maximum(ends - sizes, 0), np.maximum(ends, 0))


def of_word_pieces(
    text: str,
    pieces: Sequence[str],
    unknown: str,
    normalized: Mapping[str, str],
) -> list[tuple[int, int]]:
    """The offsets of WordPiece's pieces.

    BERT's normalization looks at each character by itself, so what came of a character
    is known, and words and pieces are stretches of that.

    Args:
        text: The text.
        pieces: Its pieces.
        unknown: The piece that stands for a whole word.
        normalized: What comes of each character of the text alone.

    Example:
    >>> alone = {"U": "u", "n": "n", "ï": "i", "!": " ! "}
    >>> of_word_pieces("Unï!", ["un", "##i", "!"], "[UNK]", alone)
    [(0, 2), (2, 3), (3, 4)]
    """
    parts = [normalized[character] for character in text]
    origin = np.repeat(np.arange(len(text)), [len(part) for part in parts])
    left = iter(pieces)
    found: list[tuple[int, int]] = []
    for word in _WORD.finditer("".join(parts)):
        for start, end in _within(word.start(), word.end(), left, unknown):
            found.append((int(origin[start]), int(origin[end - 1]) + 1))
    return found


def _within(
    start: int, end: int, pieces: Iterator[str], unknown: str
) -> Iterator[tuple[int, int]]:
    """Stretches of a word, by the lengths of the pieces that it is cut into."""
    at = start
    while at < end:
        piece = next(pieces)
        if piece == unknown:
            yield at, end
            return
        size = len(piece if at == start else piece.removeprefix(CONTINUATION))
        yield at, at + size
        at += size
