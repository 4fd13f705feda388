"""Finds the part of a text that is nearest to an answer in other words.

A person who answers in their own words, or sums a text up, quotes no part of it. A
model that marks answers in a text is trained with the part that shares most words with
them ([He et al., 2018](https://arxiv.org/abs/1711.05073) do so for answers of readers,
[Nallapati et al., 2017](https://arxiv.org/abs/1611.04230) with the sentences closest to
a summary).
"""

import re
from collections import Counter, defaultdict

import numpy as np

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
    words = list(_WORD.finditer(text))
    names = [_names(word.group()) for word in words]
    before = np.cumsum([0, *map(len, names)])  # names before each word
    wanted = Counter(_names(wording))
    total = wanted.total()
    # Shared names of the run from each word to `last`. None begins with another word.
    is_wanted = [not wanted.keys().isdisjoint(here) for here in names]
    shared = np.where(is_wanted, 0, -total - 1)
    seen: dict[str, list[int]] = defaultdict(list)
    best, found = 0.0, (len(words), 0)
    nearest = 0
    for last, here in enumerate(names):
        if not is_wanted[last]:
            continue  # a run that ends before is nearer
        if best > 0.0:
            # Longer runs are not nearer, even if they have all words of the answer.
            longest = int(2 * total / best) - total + 1
            nearest = int(np.searchsorted(before, before[last + 1] - longest))
        for name in here:
            if name not in wanted:
                continue
            places = seen[name]
            places.append(last)
            # From these places, as many are seen as are wanted.
            enough = len(places) > wanted[name]
            first = places[-wanted[name] - 1] + 1 if enough else 0
            shared[max(first, nearest) : last + 1] += 1
        if nearest > last:  # the word alone is too long: a whole line of a table
            continue
        lengths = before[last + 1] - before[nearest : last + 1]
        f1 = 2 * shared[nearest : last + 1] / (lengths + total)
        place = int(np.argmax(f1))
        score, first = float(f1[place]), nearest + place
        if score > best or (score == best and first < found[0]):
            best, found = score, (first, last)
    if best == 0.0:
        return None
    return words[found[0]].start(), words[found[1]].end()


def _names(text: str) -> list[str]:
    return _NAME.findall(text.lower())
