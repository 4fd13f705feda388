"""The characters of a text that each of its tokens stands for.

An offset is a pair `(start, end)`: `text[start:end]` is what the token was made from,
in the text as it was given, before any normalization. A token of half a character has
all of it. A space that a tokenizer puts before a text is none of it, and a token that
is nothing else stands for nothing, `(0, 0)`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_SURROGATES = re.compile("[\ud800-\udfff]")


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
