"""Gopher's rules for running text (Rae et al., 2021, appendix A.1.1)."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from transbeam.configs.schema.cleaning import QualityRulesConfig

_LETTER = re.compile(r"[^\W\d_]")
_BULLETS = ("•", "‣", "◦", "▪", "-", "*", "–", "·")
_ELLIPSIS = ("...", "…")
_EDGE_PUNCTUATION = ".,;:!?\"'()[]“”‘’«»"


def quality_reason(text: str, rules: QualityRulesConfig) -> str | None:
    """Returns the first rule that a text violates, or None.

    Example:
    >>> rules = QualityRulesConfig(minimum_words=3)
    >>> quality_reason("The sum of the parts.", rules)
    >>> quality_reason("one two", rules)
    'fewer than 3 words'
    >>> quality_reason("Buy shoes now! Cheap shoes, fast!", rules)
    'fewer than 2 stop words'
    """
    words = text.split()
    violated = chain(_of_size(words, rules), _of_content(text, words, rules))
    return next(violated, None)


def _of_size(words: list[str], rules: QualityRulesConfig) -> Iterator[str]:
    """Yields the violated rules for the number and the length of words."""
    if len(words) < rules.minimum_words:
        yield f"fewer than {rules.minimum_words} words"
    if len(words) > rules.maximum_words:
        yield f"more than {rules.maximum_words} words"
    mean = sum(map(len, words)) / max(len(words), 1)
    if mean < rules.minimum_word_length:
        yield f"words shorter than {rules.minimum_word_length:g} on average"
    if mean > rules.maximum_word_length:
        yield f"words longer than {rules.maximum_word_length:g} on average"


def _of_content(
    text: str, words: list[str], rules: QualityRulesConfig
) -> Iterator[str]:
    """Yields the violated rules for symbols, lines and the kinds of words."""
    most = rules.symbol_ratio * len(words)
    if text.count("#") > most:
        yield f"more than {rules.symbol_ratio:g} hash signs per word"
    if text.count("...") + text.count("…") > most:
        yield f"more than {rules.symbol_ratio:g} ellipses per word"
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if _share(line.startswith(_BULLETS) for line in lines) > rules.bullet_lines:
        yield f"bullets on more than {rules.bullet_lines:.0%} of the lines"
    if _share(line.endswith(_ELLIPSIS) for line in lines) > rules.ellipsis_lines:
        yield f"ellipses on more than {rules.ellipsis_lines:.0%} of the lines"
    if _share(bool(_LETTER.search(word)) for word in words) < rules.alphabetic_words:
        yield f"letters in fewer than {rules.alphabetic_words:.0%} of the words"
    met = {word.strip(_EDGE_PUNCTUATION).lower() for word in words}
    if len(met.intersection(rules.stop_words)) < rules.minimum_stop_words:
        yield f"fewer than {rules.minimum_stop_words} stop words"


def _share(verdicts: Iterable[bool]) -> float:
    seen = list(verdicts)
    return sum(seen) / max(len(seen), 1)
