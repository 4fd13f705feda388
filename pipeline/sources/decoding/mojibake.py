"""Mojibake: detects text that was decoded with the wrong codec."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache


def odd_share(text: str, places: Sequence[int]) -> float:
    """Computes the share of odd characters among those at some indices.

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
    """Returns whether a character suggests a wrong codec.

    These are unassigned characters and, inside a word, symbols and uppercase letters
    between lowercase ones.
    """
    category = unicodedata.category(character)
    if category in ("Cn", "Co"):
        return True
    if character == "¶" and after.isalpha():
        return True  # not a pilcrow, but a Greek word in ISO 8859-7
    if not (_is_of_a_word(before) and _is_of_a_word(after)):
        return False
    if category == "Lu":
        return before.islower() and after.islower()
    return _is_symbol(character)


def _is_of_a_word(character: str) -> bool:
    # Two bytes of one character are decoded to two adjacent symbols.
    return character.isalpha() or (not character.isascii() and _is_symbol(character))


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "S" or category == "No" or character in "¡¿¶§†‡•‰"
