"""Counts letters that lose an essential combining mark when accents are stripped.

BERT's uncased normalization decomposes a text and drops its combining marks. In French
this removes accents; in Thai it removes vowels and tones, in Japanese it removes the
voicing of が, and in Russian й becomes и.
"""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

from transbeam.pipeline.cleaning.unicode_scripts import script_name

# Scripts whose combining marks distinguish words. Marks in Arabic and Hebrew are vowels
# that are usually omitted, in Latin and Greek accents.
_SCRIPTS = frozenset(
    [
        "balinese",
        "bengali",
        "cyrillic",
        "devanagari",
        "gujarati",
        "gurmukhi",
        "hiragana",
        "javanese",
        "kannada",
        "katakana",
        "khmer",
        "lao",
        "malayalam",
        "myanmar",
        "oriya",
        "sinhala",
        "sundanese",
        "tamil",
        "telugu",
        "thai",
        "tibetan",
    ]
)
# The separate combining voicing marks of Japanese.
_VOICING = (0x3099, 0x309A)
_CODE_POINTS = 0x110000
_LAST = 0x20000  # no such letters above


@functools.cache
def needed_marks() -> np.ndarray:
    """Returns a mask of characters that lose an essential mark, bool (0x110000,).

    Example:
    >>> [c for c in "กิがйé" if needed_marks()[ord(c)]]
    ['ิ', 'が', 'й']
    """
    needed = np.zeros(_CODE_POINTS, np.bool_)
    for code_point in range(_LAST):
        character = chr(code_point)
        parts = unicodedata.normalize("NFD", character)
        loses = any(unicodedata.category(part) == "Mn" for part in parts)
        needed[code_point] = loses and _script(character) in _SCRIPTS
    needed[list(_VOICING)] = True
    return needed


def count_needed_marks(texts: Iterable[bytes]) -> Counter[str]:
    """Counts the characters that lose an essential mark, by script.

    Args:
        texts: UTF-8.

    Returns:
        The counts by script, and that of all characters under the empty string.

    Example:
    >>> count_needed_marks(["กินが a".encode()])
    Counter({'': 6, 'thai': 1, 'hiragana': 1})
    """
    counts: Counter[str] = Counter()
    for text in texts:
        if text.isascii():
            counts[""] += len(text)
            continue
        decoded = text.decode("utf-8", "replace").encode("utf-32-le")
        code_points = np.frombuffer(decoded, np.uint32)
        counts[""] += len(code_points)
        needed = code_points[needed_marks()[code_points]]
        for code_point, number in zip(
            *np.unique(needed, return_counts=True), strict=True
        ):
            counts[_script(chr(code_point))] += int(number)
    return counts


def _script(character: str) -> str:
    return "hiragana" if ord(character) in _VOICING else script_name(character)
