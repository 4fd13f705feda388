"""Character offsets of the tokens of a text.

An offset is a pair `(start, end)`: `text[start:end]` is the source of the token, in the
original text before normalization. A token of a part of a character has the offsets of
the whole character. A space that a tokenizer prepends to a text is not part of it, and
a token of only this space has the offsets `(0, 0)`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_SURROGATES = re.compile("[\ud800-\udfff]")


class TokenOffsets(NamedTuple):
    """The tokens of a text with their offsets.

    Attributes:
        ids: The ids of `tokenize`.
        offsets: Start and end of each in the text, in characters (code points).
    """

    ids: list[int]
    offsets: list[tuple[int, int]]


def encodable(texts: Sequence[str]) -> list[str]:
    """Replaces surrogates, which UTF-8 cannot encode, without changing lengths."""
    return [_SURROGATES.sub("\ufffd", text) for text in texts]


def in_characters(
    text: str, starts: np.ndarray, ends: np.ndarray
) -> list[tuple[int, int]]:
    """Converts byte offsets in a text to character offsets.

    Args:
        text: The text.
        starts: int64 `(T,)`. The start of each token in the text's UTF-8.
        ends: int64 `(T,)`. The end of each token.

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
    """Returns the offsets of tokens that partition the bytes of a text.

    Args:
        text: The text.
        sizes: int64 `(T,)`. The bytes of each token; the sum is one more than the text
            if a space was prepended.
    """
    ends = np.cumsum(sizes) - (sizes.sum() - len(text.encode("utf-8")))
    return in_characters(text, np.maximum(ends - sizes, 0), np.maximum(ends, 0))
