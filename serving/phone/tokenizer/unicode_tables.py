"""What the rules of a tokenizer need to know of Unicode, small enough for a phone.

Phones have tables of their own, which differ by the version of the system. So ours are
written down: classes are lists of edges, the code points where a class begins and where
it ends, in turn.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from transbeam.pipeline.tokenizers.unicode import unicode_classes
from transbeam.pipeline.tokenizers.wordpiece import bert_normalization

_SURROGATES = range(0xD800, 0xE000)
# Where Unicode has characters or plans any, and those of private use.
CODE_POINTS = [
    c
    for stretch in (range(0x40000), range(0xE0000, 0x110000))
    for c in stretch
    if c not in _SURROGATES
]
_HANGUL = range(0xAC00, 0xAC00 + 11172)
# Of all classes of combining marks, one of the lowest and one of the highest: what
# changes places with neither has no class.
_FIRST_MARK, _LAST_MARK = "\u0334", "\u0345"

Run = list[int]  # first, last, step, shift


def gpt2_characters() -> dict[str, list[int]]:
    """The classes by which GPT-2 cuts words."""
    return {
        "letters": edges(_members(unicode_classes.GPT2_LETTER)),
        "numbers": edges(_members(unicode_classes.GPT2_NUMBER)),
        "white": edges(_members(unicode_classes.GPT2_WHITESPACE)),
    }


def bert_characters(*, lowercase: bool, strip_accents: bool) -> dict[str, Any]:
    """Which characters BERT's normalisation deletes, sets apart and changes.

    What a character becomes is asked of the functions that the model's graph is made
    of: once for each code point.

    Args:
        lowercase: Fold upper case away.
        strip_accents: Decompose and drop combining marks.

    Returns:
        `spaces`, `deleted`, `words` (each is a word of its own as it stands in the
        text) and `punctuation` (as it is normalised) are classes. `shifts` and
        `replaced` say what others become: runs of first, last, step and shift, and
        lists of a code point and those it becomes. If accents are dropped, `order`
        has first, last and place of the marks that are left, `hidden` is the class of
        those that vanish once the others are in order, and `decompose_hangul` is true.
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
    """A set of code points as the places where it begins and ends, in turn.

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
    """The code points of one of the classes of `unicode_classes`."""
    for first, last in re.findall(r"\\x{(\w+)}(?:-\\x{(\w+)})?", pattern):
        yield from range(int(first, 16), int(last or first, 16) + 1)


def _changes(
    kept: Sequence[int], *, lowercase: bool, strip_accents: bool
) -> dict[int, str]:
    """What each code point becomes by itself, of those that change."""
    texts = tf.constant([chr(c) for c in kept])
    if strip_accents:
        texts = bert_normalization.strip_marks(texts)
    if lowercase:
        texts = tf.strings.lower(bert_normalization.lower(texts))
    pairs = zip(kept, texts.numpy(), strict=True)
    told = ((c, new.decode()) for c, new in pairs)
    return {c: new for c, new in told if new != chr(c)}


def _marks(kept: Sequence[int]) -> tuple[set[int], list[int]]:
    """Marks that vanish but part others, and the places of those that stay.

    Marks of one letter are put into the order of Unicode's classes. Most are dropped
    then, so their order is nothing to us. A few are not; and some that are dropped
    have no class: what stands before them stays before.
    """
    dropped = set(_members(unicode_classes.MARK))
    texts = [chr(c) for c in kept]
    whole = [
        c
        for c, text, new in zip(kept, texts, _decomposed(texts), strict=True)
        if text == new
    ]
    early = _change_places([(chr(c), _FIRST_MARK) for c in whole])
    late = _change_places([(_LAST_MARK, chr(c)) for c in whole])
    ordered = [c for c, *found in zip(whole, early, late, strict=True) if any(found)]
    left = [c for c in ordered if c not in dropped]
    pairs = [(chr(c), chr(other)) for c in left for other in left]
    behind = iter(_change_places(pairs))
    order: list[int] = []
    for c in left:
        place = sum(next(behind) for _ in left)  # how many have to stand before it
        if order[-2:] == [c - 1, place]:
            order[-2] = c
        else:
            order += [c, c, place]
    return dropped.intersection(whole) - {*ordered}, order


def _change_places(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether the second of two marks is put before the first."""
    texts = [first + second for first, second in pairs]
    return [new != text for new, text in zip(_decomposed(texts), texts, strict=True)]


def _decomposed(texts: list[str]) -> list[str]:
    found = bert_normalization.decompose(tf.constant(texts, tf.string, [len(texts)]))
    return [text.decode() for text in found.numpy().tolist()]


def _runs(becomes: Mapping[int, int]) -> list[Run]:
    """Every `step`-th code point from `first` to `last` becomes itself plus `shift`."""
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
