"""C4's rules for lines (Raffel et al., 2020, section 2.2)."""

import functools
import re

from transbeam.configs.schema.cleaning import LineRulesConfig

_TERMINAL = re.compile(r"""[.!?…。！？।؟]["'”’»)\]]?$""")
_ELLIPSIS = ("...", "…")


def keep_lines(text: str, rules: LineRulesConfig) -> str:
    r"""Keeps the lines that look like sentences, in order.

    Example:
    >>> page = "Home | About\nThe cat sat on the mat.\nThis site uses cookies, as most."
    >>> keep_lines(page, LineRulesConfig())
    'The cat sat on the mat.'
    """
    boilerplate = _pattern(rules.boilerplate)
    kept = []
    for line in text.split("\n"):
        line = line.strip()
        if rules.terminal_punctuation and not _ends_a_sentence(line):
            continue
        if len(line.split()) < rules.minimum_words:
            continue
        if boilerplate and boilerplate.search(line):
            continue
        kept.append(line)
    return "\n".join(kept)


def placeholder_reason(text: str, rules: LineRulesConfig) -> str | None:
    """Returns the placeholder phrase in a document as the reason to drop it, or None.

    Example:
    >>> placeholder_reason("Lorem ipsum dolor sit amet.", LineRulesConfig())
    "contains 'lorem ipsum'"
    """
    pattern = _pattern(rules.placeholders)
    found = pattern.search(text) if pattern else None
    return f"contains {found[0].lower()!r}" if found else None


def _ends_a_sentence(line: str) -> bool:
    return not line.endswith(_ELLIPSIS) and bool(_TERMINAL.search(line))


@functools.cache
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str] | None:
    if not phrases:
        return None
    return re.compile("|".join(map(re.escape, phrases)), re.IGNORECASE)
