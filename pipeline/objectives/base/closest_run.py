"""Finds the part of a text that is nearest to an answer in other words.

A person who answers in their own words, or sums a text up, quotes no part of it. A
model that marks answers in a text is trained with the part that shares most words with
them ([He et al., 2018](https://arxiv.org/abs/1711.05073) do so for answers of readers,
[Nallapati et al., 2017](https://arxiv.org/abs/1611.04230) with the sentences closest to
a summary).
"""

import re
from collections import Counter

_WORD = re.compile(r"\S+")
_NAME = re.compile(r"\w+")


def closest_run(text: str, wording: str) -> tuple[int, int] | None:
    """Finds the run of words in a text whose words have the highest F1 with an answer.

    Words are compared without case and punctuation; repeated words count as often as
    both sides have them. Among equal runs, the first is chosen.

    Args:
        text: The text to find a run in.
        wording: The answer.

    Returns:
        The character offsets of the run's start and end; None if no word is shared.

    Example:
    >>> text = "It rained. We walked to the old mill, then home."
    >>> start, end = closest_run(text, "A walk to the mill: they walked far.")
    >>> text[start:end]
    'walked to the old mill,'
    """
    words = [(word.span(), _names(word.group())) for word in _WORD.finditer(text)]
    wanted = Counter(_names(wording))
    best, found = 0.0, None
    for first, ((start, _), names) in enumerate(words):
        if wanted.keys().isdisjoint(names):
            continue  # a run without this word is nearer
        left = wanted.copy()
        shared = seen = 0
        for (_, end), names in words[first:]:
            for name in names:
                seen += 1
                if left[name] > 0:
                    left[name] -= 1
                    shared += 1
            if (f1 := 2 * shared / (seen + wanted.total())) > best:
                best, found = f1, (start, end)
            # No longer run can be nearer, even if it has all the words.
            if 2 * wanted.total() / (seen + wanted.total()) <= best:
                break
    return found


def _names(text: str) -> list[str]:
    return _NAME.findall(text.lower())
