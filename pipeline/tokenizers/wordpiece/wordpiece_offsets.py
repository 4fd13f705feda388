"""Character offsets of WordPiece's pieces."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from transbeam.pipeline.tokenizers.base.vocabulary import CONTINUATION

# Words after normalization, which replaces all other white space by spaces.
_WORD = re.compile(r"[^ \t\n\r]+")


def of_word_pieces(
    text: str,
    pieces: Sequence[str],
    unknown: str,
    normalized: Mapping[str, str],
) -> list[tuple[int, int]]:
    """Returns the character offsets of WordPiece's pieces.

    BERT's normalization processes each character separately, so the output of each
    character is known, and words and pieces are ranges of the output.

    Args:
        text: The text.
        pieces: Its pieces.
        unknown: The piece that represents an unknown word.
        normalized: The normalized form of each character of the text.

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
    """Yields the ranges of a word's pieces, by their lengths."""
    at = start
    while at < end:
        piece = next(pieces)
        if piece == unknown:
            yield at, end
            return
        size = len(piece if at == start else piece.removeprefix(CONTINUATION))
        yield at, at + size
        at += size
