"""Long runs of characters that a SentencePiece model does not know, made short.

The library joins such a run to one `<unk>`, and for each character copies what it has
of it: of a text of a megabyte that takes ten seconds, in which nobody can stop it. The
ends of a run say as much as the whole.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.ragged_rows import kept_of_each, row_of_each
from transbeam.pipeline.tokenizers.sentencepiece.model_file import read_rules
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
)

# Characters that stay at each end of a run: more than a rule or a piece reads at once.
_KEPT = 64
# Bytes of a text up to which the library is quick with whatever it is: 5 ms at most.
_SHORT = 2**15
_CODE_POINTS = 0x110000
_SIDES: tuple[Any, Any] = ("left", "right")
# Never part of a run, with which a piece of a word may begin.
_SPACES = " ▁"


class _Changes(NamedTuple):
    """Texts before and after a model's rules, as code points one behind the other.

    Attributes:
        before: int32, of all texts.
        before_splits: int64 (R + 1,), where each begins.
        after: int32, of what they become.
        after_splits: int64 (R + 1,).
    """

    before: np.ndarray
    before_splits: np.ndarray
    after: np.ndarray
    after_splits: np.ndarray


def unknown_edges(model: SentencePieceProto) -> np.ndarray:
    """Ranges of characters that nothing but `<unk>` comes of.

    A character of which a rule makes others counts by these, and one of which a rule
    makes a known one with others like it does not count.

    Args:
        model: Whose pieces and rules these are. One with pieces of single bytes has no
            such characters, and in one with very long pieces they are not looked for.

    Returns:
        int32 (2 N,), ascending: N ranges, each with the first code point in it and the
        first behind it.
    """
    if any(map(model.processor.is_byte, range(model.processor.get_piece_size()))):
        return np.zeros([0], np.int32)
    if max(map(len, model.pieces)) > _KEPT:
        return np.zeros([0], np.int32)
    nameless = _nameless(model.pieces)
    unknown = nameless.copy()
    rules = read_rules(model)
    changes = _changes(rules.trie, rules.texts)
    lengths = np.diff(changes.before_splits)
    becomes_unknown = _all_of_each(nameless[changes.after], changes.after_splits)
    becomes_unknown &= np.diff(changes.after_splits) > 0
    alone = lengths == 1
    single = changes.before[changes.before_splits[:-1][alone]]
    unknown[single] = becomes_unknown[alone]
    to_known = ~alone & ~becomes_unknown
    rule_of_each = np.repeat(np.arange(len(lengths)), lengths)
    while True:
        inside = to_known & _all_of_each(unknown[changes.before], changes.before_splits)
        if not inside.any():
            break
        unknown[changes.before[inside[rule_of_each]]] = False
    padded = np.concatenate([[False], unknown, [False]])
    return np.flatnonzero(padded[1:] != padded[:-1]).astype(np.int32)


def _nameless(pieces: Sequence[str]) -> np.ndarray:
    """Characters of which alone no piece can be made: bool, by code points."""
    nameless = np.ones([_CODE_POINTS], bool)
    nameless[[ord(c) for c in _SPACES]] = False
    # The shortest first: a longer piece may have a character with a name by then.
    for piece in sorted(pieces, key=len):
        characters = [*map(ord, piece)]
        if nameless[characters].all():
            nameless[characters] = False
    return nameless


def shortened(texts: tf.Tensor, edges: np.ndarray) -> tf.Tensor:
    """Texts whose tokens are the same, without the middle of each run.

    Args:
        texts: string (N,), UTF-8.
        edges: See `unknown_edges`.
    """
    if not len(edges):
        return texts
    longest = tf.reduce_max(tf.pad(tf.strings.length(texts), [[0, 1]]))
    return tf.cond(
        longest > _SHORT, lambda: _shortened(texts, edges), lambda: tf.identity(texts)
    )


def _shortened(texts: tf.Tensor, edges: np.ndarray) -> tf.Tensor:
    characters: Any = tf.strings.unicode_decode(texts, "UTF-8")
    # Two samples side by side are in each run that is too long.
    side = tf.searchsorted(edges, characters.values[::_KEPT], side="right") % 2
    return tf.cond(
        tf.reduce_any(side[1:] + side[:-1] == 2),
        lambda: _without_middles(characters, edges),
        lambda: tf.identity(texts),
    )


def _without_middles(characters: Any, edges: np.ndarray) -> tf.Tensor:
    flat, row = characters.values, row_of_each(characters)
    side = tf.searchsorted(edges, flat, side="right") % 2  # 1 in a run
    changed = (side[1:] != side[:-1]) | (row[1:] != row[:-1])
    begins = tf.concat([tf.fill([tf.minimum(tf.size(flat), 1)], True), changed], axis=0)
    run = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    starts = tf.cast(tf.where(begins)[:, 0], tf.int32)
    ends = tf.concat([starts[1:], [tf.size(flat)]], axis=0)[: tf.size(starts)]
    place = tf.range(tf.size(flat))
    at_end = (place - tf.gather(starts, run) < _KEPT) | (
        tf.gather(ends, run) - place <= _KEPT
    )
    kept = kept_of_each(characters, at_end | (side == 0))
    return tf.strings.unicode_encode(kept, "UTF-8")


def _all_of_each(flags: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Tells of each stretch between two splits if all is set; nothing counts as all."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return sums[splits[1:]] - sums[splits[:-1]] == np.diff(splits)


@lru_cache(maxsize=8)
def _changes(trie: bytes, texts: bytes) -> _Changes:
    """All rules of a model, which for the usual ones are some hundred thousand."""
    before, lengths, places = _keys(np.frombuffer(trie, np.uint32))
    content = np.frombuffer(texts, np.uint8)
    zeros = np.flatnonzero(content == 0)
    sizes = zeros[np.searchsorted(zeros, places)] - places if len(places) else places
    first = np.repeat(places - np.cumsum(sizes) + sizes, sizes)
    after = content[first + np.arange(len(first))]
    return _Changes(*_code_points(before, lengths), *_code_points(after, sizes))


def _code_points(flat: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Code points of texts in UTF-8 one behind the other, and where each begins."""
    begins = np.concatenate([[0], np.cumsum((flat & 0xC0) != 0x80)])
    splits = begins[np.concatenate([[0], np.cumsum(sizes)])]
    text = flat.tobytes().decode().encode("utf-32-le")
    return np.frombuffer(text, np.uint32).astype(np.int32), splits


def _keys(units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The keys of a trie, as Darts-clone writes it, the shortest first.

    A unit has the byte that leads to it, whether a value hangs on it, and the way to
    its children: a child stands there XOR its byte.

    Returns:
        The bytes of all keys; how many each has; and the value of each.
    """
    found = [np.zeros([0], np.uint8)]
    lengths, values = [np.zeros([0], int)], [np.zeros([0], int)]
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    has_leaf = (units >> 8) & 1 == 1
    letters = (units & 0xFF).astype(np.uint8)
    # A child tells by its own byte where its parent's way leads.
    children = np.flatnonzero((units >> 31 == 0) & (letters > 0))
    bases = children ^ letters[children]
    order = np.argsort(bases, kind="stable")
    children, bases = children[order], bases[order]
    nodes, keys = offsets[:1].astype(int), np.zeros([len(units[:1]), 0], np.uint8)
    while len(nodes):
        first, behind = (np.searchsorted(bases, nodes, side) for side in _SIDES)
        counts = behind - first
        rows = np.repeat(np.arange(len(nodes)), counts)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        child = children[first[rows] + place]
        nodes = child ^ offsets[child]
        keys = np.column_stack([keys[rows], letters[child]])
        ends = has_leaf[child]
        found.append(keys[ends].ravel())
        lengths.append(np.full(np.count_nonzero(ends), keys.shape[1]))
        values.append(units[nodes[ends]].astype(int) & 0x7FFFFFFF)
    return np.concatenate(found), np.concatenate(lengths), np.concatenate(values)
