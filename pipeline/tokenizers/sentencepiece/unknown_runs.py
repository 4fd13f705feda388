"""Shortens long runs of characters that are unknown to a SentencePiece model.

SentencePiece merges a run of unknown characters to one `<unk>`, and for each character
copies the part of the run before it: a run of a megabyte takes ten seconds and cannot
be interrupted. A run that is shortened to its first and last characters is tokenized to
the same tokens.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.base.ragged_rows import filter_rows, row_of_each
from transbeam.pipeline.tokenizers.sentencepiece.sentencepiece_proto import (
    SentencePieceProto,
    read_rules,
)

# Characters to keep at each end of a run: more than any rule or piece spans.
_KEPT = 64
# Size of texts in bytes up to which the library takes 5 ms at most.
_SHORT = 2**15
_CODE_POINTS = 0x110000
_SIDES: tuple[Any, Any] = ("left", "right")
# Never part of a run, since pieces of words may begin with them.
_SPACES = " ▁"


class _Changes(NamedTuple):
    """Texts that a model's normalization rules replace, and the replacements.

    Attributes:
        before: int32, the code points of all texts to replace.
        before_splits: int64 (R + 1,), the start of each text in `before`, then the end
            of the last text.
        after: int32, the code points of all replacements.
        after_splits: int64 (R + 1,), the start of each replacement in `after`, then the
            end of the last replacement.
    """

    before: np.ndarray
    before_splits: np.ndarray
    after: np.ndarray
    after_splits: np.ndarray


def unknown_ranges(model: SentencePieceProto) -> np.ndarray:
    """Returns ranges of characters that always become `<unk>`.

    A character that a normalization rule replaces is included if its replacement always
    becomes `<unk>`. Unknown characters are excluded if a rule replaces a sequence of
    them by text that is empty or contains known characters.

    Args:
        model: The model with the pieces and normalization rules. The result is empty
            for models with byte pieces, which have no unknown characters, and for
            models with very long pieces.

    Returns:
        int32 (2 N,), ascending: the first code point of each of N ranges, and the first
        code point after the range.
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
    """Returns a mask of characters such that each piece contains other characters."""
    nameless = np.ones([_CODE_POINTS], bool)
    nameless[[ord(c) for c in _SPACES]] = False
    # Shortest first: a longer piece with a known character is in no unknown run.
    for piece in sorted(pieces, key=len):
        characters = [*map(ord, piece)]
        if nameless[characters].all():
            nameless[characters] = False
    return nameless


def shorten_unknown_runs(texts: tf.Tensor, edges: np.ndarray) -> tf.Tensor:
    """Removes the middle of long runs of unknown characters, without changing tokens.

    Args:
        texts: string (N,), UTF-8.
        edges: See `unknown_ranges`.
    """
    if not len(edges):
        return texts
    longest = tf.reduce_max(tf.pad(tf.strings.length(texts), [[0, 1]]))
    return tf.cond(
        longest > _SHORT, lambda: _shortened(texts, edges), lambda: tf.identity(texts)
    )


def _shortened(texts: tf.Tensor, edges: np.ndarray) -> tf.Tensor:
    characters: Any = tf.strings.unicode_decode(texts, "UTF-8")
    # Each run that is too long contains two adjacent samples.
    side = tf.searchsorted(edges, characters.values[::_KEPT], side="right") % 2
    return tf.cond(
        tf.reduce_any(side[1:] + side[:-1] == 2),
        lambda: _without_middles(characters, edges),
        lambda: tf.identity(texts),
    )


def _without_middles(characters: Any, edges: np.ndarray) -> tf.Tensor:
    flat, row = characters.values, row_of_each(characters)
    side = tf.searchsorted(edges, flat, side="right") % 2  # 1 inside a run
    changed = (side[1:] != side[:-1]) | (row[1:] != row[:-1])
    begins = tf.concat([tf.fill([tf.minimum(tf.size(flat), 1)], True), changed], axis=0)
    run = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    starts = tf.cast(tf.where(begins)[:, 0], tf.int32)
    ends = tf.concat([starts[1:], [tf.size(flat)]], axis=0)[: tf.size(starts)]
    place = tf.range(tf.size(flat))
    at_end = (place - tf.gather(starts, run) < _KEPT) | (
        tf.gather(ends, run) - place <= _KEPT
    )
    kept = filter_rows(characters, at_end | (side == 0))
    return tf.strings.unicode_encode(kept, "UTF-8")


def _all_of_each(flags: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """Returns whether all flags of each segment are set; true for empty segments."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return sums[splits[1:]] - sums[splits[:-1]] == np.diff(splits)


@lru_cache(maxsize=8)
def _changes(trie: bytes, texts: bytes) -> _Changes:
    """Reads the normalization rules; common models have some hundred thousand."""
    before, lengths, starts = _keys(np.frombuffer(trie, np.uint32))
    content = np.frombuffer(texts, np.uint8)
    zeros = np.flatnonzero(content == 0)
    sizes = zeros[np.searchsorted(zeros, starts)] - starts if len(starts) else starts
    first = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    after = content[first + np.arange(len(first))]
    return _Changes(*_code_points(before, lengths), *_code_points(after, sizes))


def _code_points(flat: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns code points of concatenated UTF-8 texts, and where each text starts."""
    begins = np.concatenate([[0], np.cumsum((flat & 0xC0) != 0x80)])
    splits = begins[np.concatenate([[0], np.cumsum(sizes)])]
    text = flat.tobytes().decode().encode("utf-32-le")
    return np.frombuffer(text, np.uint32).astype(np.int32), splits


def _keys(units: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the keys of a Darts-clone trie, the shortest first.

    A unit (node) of the trie consists of the byte on the edge from its parent, a flag
    that is set if a key ends there, and an offset: the index of a child is this offset
    XOR the child's byte.

    Returns:
        The concatenated bytes of all keys, the length of each key, and the value of
        each key.
    """
    found = [np.zeros([0], np.uint8)]
    lengths, values = [np.zeros([0], int)], [np.zeros([0], int)]
    offsets = (units >> 10) << ((units & (1 << 9)) >> 6)
    has_leaf = (units >> 8) & 1 == 1
    letters = (units & 0xFF).astype(np.uint8)
    # The offset of a child's parent follows from the child's own byte.
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
