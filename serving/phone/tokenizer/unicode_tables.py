"""Compact Unicode tables for the tokenizers on phones.

Phones have their own Unicode tables, which depend on the version of the operating
system. So the tables used in training are stored: a character class is a list of range
boundaries, alternately the first code point of a range and the first one after the
range.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.unicode import unicode_classes
from transbeam.pipeline.tokenizers.wordpiece import bert_normalization

_SURROGATES = range(0xD800, 0xE000)
# The planes with assigned or planned characters, and those of private use.
CODE_POINTS = [
    c
    for stretch in (range(0x40000), range(0xE0000, 0x110000))
    for c in stretch
    if c not in _SURROGATES
]
_HANGUL = range(0xAC00, 0xAC00 + 11172)
# Marks of the lowest and of the highest combining class: marks that are reordered with
# neither have no class.
_FIRST_MARK, _LAST_MARK = "\u0334", "\u0345"

Run = list[int]  # first, last, step, shift


def gpt2_characters() -> dict[str, list[int]]:
    """Returns the character classes of GPT-2's pre-tokenization."""
    return {
        "letters": edges(_members(unicode_classes.GPT2_LETTER)),
        "numbers": edges(_members(unicode_classes.GPT2_NUMBER)),
        "white": edges(_members(unicode_classes.GPT2_WHITESPACE)),
    }


def bert_characters(*, lowercase: bool, strip_accents: bool) -> dict[str, Any]:
    """Returns the characters that BERT's normalization deletes, separates and changes.

    The replacement of each code point is computed with the functions of the model's
    graph.

    Args:
        lowercase: Whether to lowercase.
        strip_accents: Whether to decompose characters and drop combining marks.

    Returns:
        `spaces`, `deleted`, `words` (characters that are words of their own before
        normalization) and `punctuation` (characters that are words of their own after
        normalization) are character classes. `shifts` and `replaced` define the
        replacements of all other code points: `shifts` are runs of first, last, step
        and shift, `replaced` lists pairs of a code point and its replacement. If
        accents are stripped, `order` has first, last and rank of the marks that are
        kept, `hidden` is the class of marks that are dropped after reordering, and
        `decompose_hangul` is true.
    """
    deleted = set(_members(unicode_classes.CONTROL))
    spaces = {*map(ord, " \t\n\r"), *_members(unicode_classes.WHITESPACE)}
    kept = [c for c in CODE_POINTS if c not in deleted and c not in spaces]
    hidden: set[int] = set()
    order: list[int] = []
    if strip_accents:
        hidden, order = _marks(kept)
    becomes = _changes(kept, lowercase=lowercase, strip_accents=strip_accents)
    if strip_accents:
        becomes = {c: new for c, new in becomes.items() if c not in _HANGUL}
    deleted |= {c for c, new in becomes.items() if not new} - hidden
    one = {c: ord(new) for c, new in becomes.items() if len(new) == 1}
    return {
        "spaces": edges(spaces),
        "deleted": edges(deleted),
        "words": edges(_members(unicode_classes.CJK)),
        "punctuation": edges(_members(unicode_classes.PUNCTUATION)),
        "shifts": [value for run in _runs(one) for value in run],
        "replaced": [[c, *map(ord, new)] for c, new in becomes.items() if len(new) > 1],
        "hidden": edges(hidden),
        "order": order,
        "decompose_hangul": strip_accents,
    }


def edges(members: Iterable[int]) -> list[int]:
    """Converts a set of code points to the boundaries of its ranges.

    Example:
    >>> edges([5, 1, 2])
    [1, 3, 5, 6]
    """
    found: list[int] = []
    for c in sorted(members):
        if found and found[-1] == c:
            found[-1] = c + 1
        else:
            found += [c, c + 1]
    return found


def _members(pattern: str) -> Iterator[int]:
    """Yields the code points of a class of `unicode_classes`."""
    for first, last in re.findall(r"\\x{(\w+)}(?:-\\x{(\w+)})?", pattern):
        yield from range(int(first, 16), int(last or first, 16) + 1)


def _changes(
    kept: Sequence[int], *, lowercase: bool, strip_accents: bool
) -> dict[int, str]:
    """Returns the code points that normalization changes, with their replacement."""
    texts = tf.constant([chr(c) for c in kept])
    if strip_accents:
        texts = bert_normalization.strip_marks(texts)
    if lowercase:
        texts = tf.strings.lower(bert_normalization.lower(texts))
    pairs = zip(kept, texts.numpy(), strict=True)
    changed = ((c, new.decode()) for c, new in pairs)
    return {c: new for c, new in changed if new != chr(c)}


def _marks(kept: Sequence[int]) -> tuple[set[int], list[int]]:
    """Returns dropped marks that block reordering, and ranks of marks that are kept.

    The marks of one letter are sorted by Unicode's combining classes. Most marks are
    dropped afterwards, so their order does not matter. A few marks are kept; and some
    of the dropped marks have no combining class, so other marks are not moved across
    them.
    """
    dropped = set(_members(unicode_classes.MARK))
    texts = [chr(c) for c in kept]
    undecomposed = [
        c
        for c, text, new in zip(kept, texts, _decomposed(texts), strict=True)
        if text == new
    ]
    early = _are_reordered([(chr(c), _FIRST_MARK) for c in undecomposed])
    late = _are_reordered([(_LAST_MARK, chr(c)) for c in undecomposed])
    ordered = [
        c for c, *found in zip(undecomposed, early, late, strict=True) if any(found)
    ]
    left = [c for c in ordered if c not in dropped]
    pairs = [(chr(c), chr(other)) for c in left for other in left]
    behind = iter(_are_reordered(pairs))
    order: list[int] = []
    for c in left:
        rank = sum(next(behind) for _ in left)  # the number of marks before it
        if order[-2:] == [c - 1, rank]:
            order[-2] = c
        else:
            order += [c, c, rank]
    return dropped.intersection(undecomposed) - {*ordered}, order


def _are_reordered(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Returns, for each pair of marks, whether decomposition swaps them."""
    texts = [first + second for first, second in pairs]
    return [new != text for new, text in zip(_decomposed(texts), texts, strict=True)]


def _decomposed(texts: list[str]) -> list[str]:
    found = bert_normalization.decompose(tf.constant(texts, tf.string, [len(texts)]))
    return [text.decode() for text in found.numpy().tolist()]


def _runs(becomes: Mapping[int, int]) -> list[Run]:
    """Groups replacements into runs: every `step`-th code point shifts by `shift`."""
    runs: list[Run] = []
    for c, new in becomes.items():
        shift = new - c
        if runs:
            first, last, step, same = runs[-1]
            gap = c - last
            if shift == same and gap <= 2 and (first == last or gap == step):
                runs[-1] = [first, c, gap, shift]
                continue
        runs.append([c, c, 1, shift])
    return runs
