"""Mojibake: signs that a text was decoded with the wrong codec."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache


def odd_share(text: str, places: Sequence[int]) -> float:
    """The share of odd characters among those at some places.

    Example:
    >>> odd_share("donÆt", [3]), odd_share("c½ur déjà", [1, 6])
    (1.0, 0.5)
    """
    odd = 0
    for at in places:
        odd += _is_odd(text[max(at - 1, 0) : at], text[at], text[at + 1 : at + 2])
    return odd / len(places) if places else 0.0


@lru_cache(1 << 16)
def _is_odd(before: str, character: str, after: str) -> bool:
    """Whether a character hints at a wrong codec.

    Unassigned characters do, and inside a word symbols and capitals between small
    letters.
    """
    category = unicodedata.category(character)
    if category in ("Cn", "Co"):
        return True
    if character == "¶" and after.isalpha():
        return True  # no paragraph begins like that, but words of Greek in ISO 8859-7
    if not (_is_of_a_word(before) and _is_of_a_word(after)):
        return False
    if category == "Lu":
        return before.islower() and after.islower()
    return _is_symbol(character)


def _is_of_a_word(character: str) -> bool:
    # Two bytes that were one character are two symbols in a row.
    return character.isalpha() or (not character.isascii() and _is_symbol(character))


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "S" or category == "No" or character in "¡¿¶§†‡•‰"
