"""Gopher's rules against repetition (Rae et al., 2021, appendix A.1.1, table A1)."""

from collections import Counter
from collections.abc import Sequence

from transbeam.configs.schema.cleaning import RepetitionRulesConfig


def repetition_reason(text: str, rules: RepetitionRulesConfig) -> str | None:
    r"""Returns the first rule that a text violates, or None.

    Shares of characters are relative to the characters of words, without white space.

    Example:
    >>> repetition_reason("tick tock " * 9, RepetitionRulesConfig())
    'more than 20% of the characters in the most frequent 2 words'
    >>> repetition_reason("same line\nsame line\n", RepetitionRulesConfig())
    'more than 30% of the lines were there before'
    """
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    paragraphs = [p for p in map(str.strip, text.split("\n\n")) if p]
    words = text.split()
    characters = max(sum(map(len, words)), 1)
    again = _again(lines)
    shares = [
        (len(again) / max(len(lines), 1), rules.duplicate_lines, _LINES),
        (
            len(_again(paragraphs)) / max(len(paragraphs), 1),
            rules.duplicate_paragraphs,
            "of the paragraphs were there before",
        ),
        (
            sum(len(line) for line in again) / max(sum(map(len, lines)), 1),
            rules.duplicate_line_characters,
            "of the characters are in lines that were there before",
        ),
    ]
    for share, most, what in shares:
        if share > most:
            return f"more than {most:.0%} {what}"
    for n in (2, 3, 4):
        most = getattr(rules, f"top_{n}_gram")
        if _most_frequent(words, n) > most * characters:
            return (
                f"more than {most:.0%} of the characters in the most frequent {n} words"
            )
    for n, most in ((5, rules.duplicate_5_grams), (10, rules.duplicate_10_grams)):
        if _in_repeated_runs(words, n) > most * characters:
            return (
                f"more than {most:.0%} of the characters in repeated runs of {n} words"
            )
    return None


_LINES = "of the lines were there before"


def _again(pieces: Sequence[str]) -> list[str]:
    """Returns the strings that repeat an earlier string of the sequence."""
    met: set[str] = set()
    return [piece for piece in pieces if piece in met or met.add(piece)]


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _most_frequent(words: Sequence[str], n: int) -> int:
    """Counts the characters in all occurrences of the most frequent n-gram of words.

    Returns 0 if every n-gram is unique. Of equally frequent n-grams, the one with the
    most characters is used.
    """
    counts = Counter(_runs(words, n))
    if not counts:
        return 0
    times = max(counts.values())
    if times == 1:
        return 0
    return times * max(
        sum(map(len, run)) for run, count in counts.items() if count == times
    )


def _in_repeated_runs(words: Sequence[str], n: int) -> int:
    """Counts the characters of words in n-grams that occur more than once.

    A word in several of the repeated n-grams counts once.
    """
    runs = _runs(words, n)
    counts = Counter(runs)
    repeated = [False] * len(words)
    for start, run in enumerate(runs):
        if counts[run] > 1:
            repeated[start : start + n] = [True] * n
    return sum(len(w) for w, again in zip(words, repeated, strict=True) if again)
