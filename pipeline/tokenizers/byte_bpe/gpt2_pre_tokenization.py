r"""GPT-2's pre-tokenization as byte arithmetic in core TensorFlow ops.

GPT-2 uses a regular expression with look-ahead, which RE2 does not support:

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

But whether a word begins at a character depends only on the classes of the character
and its two neighbors (for contractions like `'s` also on the next two letters). So this
module classifies all characters of all texts at once, which is also much faster than
matching a regular expression.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from transbeam.pipeline.tokenizers.unicode import unicode_classes
from transbeam.pipeline.tokenizers.unicode.code_point_table import (
    BLOCK,
    split_into_blocks,
)

# Character classes. Those from _WHITE on are white space.
_SYMBOL, _LETTER, _NUMBER, _WHITE, _SPACE, _END = range(6)

# Ends each text; UTF-8 never contains this byte. It counts as white space, so white
# space before it is the end of a text and not the beginning of a word.
_SEPARATOR = 0xFF

_UTF8 = r"[\x00-\x{d7ff}\x{e000}-\x{10ffff}]*"

# Words up to this number of bytes are deduplicated; longer ones are kept as they are.
_COMPARED = 24
# The minimum number of zeros after the texts, so that eight bytes can be read at any
# byte of a word.
_PADDING = 32


class PreTokenizedWords(NamedTuple):
    """The positions of the words of all texts in one array of bytes.

    Attributes:
        values: uint8 (B,). The bytes of the texts, with separators and padding; B is
            divisible by 8.
        starts: int64 (W,). Index of the first byte of each word.
        lengths: int64 (W,). The number of bytes of each word, at least 1.
        per_text: int64 (N,). The number of words of each text.
    """

    values: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    per_text: tf.Tensor


class UniqueWords(NamedTuple):
    """Distinct words as concatenated bytes.

    Attributes:
        values: uint8 (B,). The bytes of all distinct words.
        owners: int32 (B,). Index of the word of each byte, ascending.
        count: int32 (). The number of distinct words U.
        index: int32 (W,). Index of the distinct word for each word of the texts.
    """

    values: tf.Tensor
    owners: tf.Tensor
    count: tf.Tensor
    index: tf.Tensor


def split_into_words(texts: tf.Tensor) -> PreTokenizedWords:
    """Finds the words of texts.

    Args:
        texts: string (N,), any bytes. Invalid UTF-8 counts as U+FFFD, as in
            `bytes.decode("utf-8", "replace")`.

    Example:
    >>> words = split_into_words(tf.constant(["It's 10  o'clock"]))
    >>> content = bytes(words.values.numpy())
    >>> [content[i : i + n] for i, n in zip(words.starts, words.lengths, strict=True)]
    [b'It', b"'s", b' 10', b' ', b' o', b"'", b'clock']
    """
    separator = bytes([_SEPARATOR])
    joined = tf.strings.reduce_join(tf.strings.join([_as_utf8(texts), separator]))
    content = tf.strings.join([separator, joined])
    size = tf.strings.length(content)
    values = tf.io.decode_raw(
        content, tf.uint8, fixed_length=(size + _PADDING + 7) // 8 * 8
    )
    starts = tf.where(_is_start(values)[:size])[:, 0]
    separators = tf.where(tf.equal(values, _SEPARATOR))[:, 0]
    words_before = tf.searchsorted(starts, separators, out_type=tf.int64)
    # A word ends at the start of the next one, or at an earlier separator.
    ends = tf.concat([starts, [tf.cast(size, tf.int64)]], axis=0)
    ends = tf.tensor_scatter_nd_min(ends, words_before[:, tf.newaxis], separators)
    return PreTokenizedWords(
        values=values,
        starts=starts,
        lengths=ends[1:] - starts,
        per_text=words_before[1:] - words_before[:-1],
    )


def unique_words(words: PreTokenizedWords) -> UniqueWords:
    """Deduplicates words; very long words are kept each time that they occur.

    Example:
    >>> unique = unique_words(split_into_words(tf.constant(["a b b"])))
    >>> bytes(unique.values.numpy()), unique.index.numpy().tolist()
    (b'a b', [0, 1, 1])
    """
    keys, index = tf.unique(_keys(words))
    count = tf.size(keys)
    sample = tf.math.unsorted_segment_max(tf.range(tf.size(index)), index, count)
    starts = tf.gather_nd(words.starts, sample[:, tf.newaxis])
    lengths = tf.gather_nd(words.lengths, sample[:, tf.newaxis])
    positions = tf.ragged.range(starts, starts + lengths).flat_values
    first = tf.cumsum(lengths, exclusive=True)[:, tf.newaxis]
    is_first = tf.scatter_nd(first, tf.ones_like(sample), tf.shape(positions, tf.int64))
    return UniqueWords(
        values=tf.gather_nd(words.values, positions[:, tf.newaxis]),
        owners=tf.cumsum(is_first) - 1,
        count=count,
        index=index,
    )


def _as_utf8(texts: tf.Tensor) -> tf.Tensor:
    faulty = tf.where(~tf.strings.regex_full_match(texts, _UTF8))
    repaired = tf.strings.unicode_transcode(
        tf.gather_nd(texts, faulty),
        "UTF-8",
        "UTF-8",
        errors="replace",
        replacement_char=0xFFFD,
    )
    return tf.tensor_scatter_nd_update(texts, faulty, repaired)


def _kind_of_code_points() -> np.ndarray:
    kinds = np.full(0x110000, _SYMBOL, np.uint8)
    for pattern, kind in (
        (unicode_classes.GPT2_LETTER, _LETTER),
        (unicode_classes.GPT2_NUMBER, _NUMBER),
        (unicode_classes.GPT2_WHITESPACE, _WHITE),
    ):
        for first, last in re.findall(r"\\x{(\w+)}(?:-\\x{(\w+)})?", pattern):
            kinds[int(first, 16) : int(last or first, 16) + 1] = kind
    kinds[ord(" ")] = _SPACE
    return kinds


_KIND_OF = _kind_of_code_points()
_KIND_OF_BYTE = np.append(_KIND_OF[:_SEPARATOR], np.uint8(_END))
# For two bytes at once, as uint16 (65536,): twice as fast as for single bytes.
_KINDS_OF_TWO = np.stack(np.meshgrid(_KIND_OF_BYTE, _KIND_OF_BYTE), axis=-1)
_KINDS_OF_TWO = _KINDS_OF_TWO.view(np.uint16).ravel()
_BLOCKS, _BLOCK_OF = split_into_blocks(_KIND_OF)


class _LongCharacters(NamedTuple):
    """All characters of the texts that have `size` bytes in UTF-8, two or more.

    Attributes:
        size: The number of bytes of each character.
        place: int64 (C, 1). Index of the first byte of each character.
        kind: uint8 (C,). The class of each character.
    """

    size: int
    place: tf.Tensor
    kind: tf.Tensor


def _long_characters(values: tf.Tensor) -> Iterator[_LongCharacters]:
    """Yields three groups: the characters of two, of three and of four bytes."""
    first_bytes = tf.where((values >= 0xC0) & (values < _SEPARATOR))
    leading = tf.gather_nd(values, first_bytes)
    for size, first, last in ((2, 0xC0, 0xDF), (3, 0xE0, 0xEF), (4, 0xF0, 0xF7)):
        is_of_size = (leading >= first) & (leading <= last)
        place = _chosen(first_bytes, is_of_size)
        code_points = tf.cast(tf.gather_nd(values, place), tf.int32) & (
            0xFF >> size + 1
        )
        for offset in range(1, size):
            more = tf.cast(tf.gather_nd(values, place + offset), tf.int32) & 0x3F
            code_points = code_points * 0x40 + more
        block = tf.gather(_BLOCK_OF, code_points // BLOCK)
        kind = tf.gather_nd(
            _BLOCKS, tf.stack([block, tf.math.floormod(code_points, BLOCK)], axis=1)
        )
        yield _LongCharacters(size, place, kind)


def _kinds(values: tf.Tensor, long: Sequence[_LongCharacters]) -> tf.Tensor:
    """Returns the class of each byte's character, uint8 (B,)."""
    two = tf.bitcast(tf.reshape(values, [-1, 2]), tf.uint16)
    kinds = tf.gather_nd(_KINDS_OF_TWO, tf.cast(two, tf.int32)[:, tf.newaxis])
    return tf.tensor_scatter_nd_update(
        tf.reshape(tf.bitcast(kinds, tf.uint8), [-1]),
        tf.concat([one.place + i for one in long for i in range(one.size)], axis=0),
        tf.concat([one.kind for one in long for _ in range(one.size)], axis=0),
    )


def _is_start(values: tf.Tensor) -> tf.Tensor:
    """Returns whether a word begins at each byte, bool (B,)."""
    long = list(_long_characters(values))
    kinds = _kinds(values, long)
    end = tf.constant([_END], tf.uint8)
    before = tf.concat([end, kinds[:-1]], axis=0)
    after = tf.concat([kinds[1:], end], axis=0)
    # A run of white space is one word without its last character, which is a word of
    # its own or, if it is a space, the beginning of the next word.
    starts = tf.where(
        kinds >= _WHITE,
        (before < _WHITE) | (after < _WHITE),
        tf.not_equal(kinds, before) & tf.not_equal(before, _SPACE),
    )
    starts |= tf.equal(before, _END)
    # A single update sets the few exceptions, as each update copies all bytes.
    last, first = _long_white_space(starts, long)
    inside, behind = _contractions(values, before)
    no, yes = tf.concat([last, inside], axis=0), tf.concat([first, behind], axis=0)
    flags = tf.concat([_fill(no, False), _fill(yes, True)], axis=0)
    starts = tf.tensor_scatter_nd_update(starts, tf.concat([no, yes], axis=0), flags)
    return starts & tf.not_equal(kinds, _END)


def _chosen(positions: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
    """Filters like `tf.boolean_mask`, in two operations instead of thirty."""
    return tf.gather_nd(positions, tf.where(chosen))


def _fill(positions: tf.Tensor, value: bool) -> tf.Tensor:
    return tf.fill(tf.shape(positions)[:1], value)


def _long_white_space(
    starts: tf.Tensor, long: Sequence[_LongCharacters]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns last and first byte positions of multi-byte spaces at word starts."""
    white = [_chosen(one.place, tf.equal(one.kind, _WHITE)) for one in long]
    first = tf.concat(white, axis=0)
    last = [place + one.size - 1 for place, one in zip(white, long, strict=True)]
    last = tf.concat(last, axis=0)
    found = tf.gather_nd(starts, last)
    return _chosen(last, found), _chosen(first, found)


def _contractions(values: tf.Tensor, before: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the positions after the apostrophe and after the end of contractions."""
    apostrophe = tf.where(tf.equal(values, ord("'")))
    # An apostrophe after a symbol or a space belongs to a word of symbols.
    kind = tf.gather_nd(before, apostrophe)
    alone = tf.not_equal(kind, _SYMBOL) & tf.not_equal(kind, _SPACE)
    place = _chosen(apostrophe, alone)
    one, two = tf.gather_nd(values, place + 1), tf.gather_nd(values, place + 2)
    short = tf.reduce_any([tf.equal(one, letter) for letter in b"stmd"], axis=0)
    long = tf.reduce_any(
        [tf.equal(one, a) & tf.equal(two, b) for a, b in (b"re", b"ve", b"ll")], axis=0
    )
    behind = tf.concat([_chosen(place, short) + 2, _chosen(place, long) + 3], axis=0)
    return _chosen(place, short | long) + 1, behind


def _keys(words: PreTokenizedWords) -> tf.Tensor:
    """Returns keys that are equal for equal words, int64 (W,): length and bytes.

    The key of a word of more than 7 bytes consists of its length and an index of its
    bytes; very long words all have different keys.
    """
    content = tf.bitcast(tf.reshape(words.values, [-1, 8]), tf.uint64)
    first = _eight_bytes(content, words.starts)
    few = tf.minimum(words.lengths, 7)
    keys = tf.bitcast(_leading(first, few), tf.int64) | few
    longer = tf.where(words.lengths > 7)
    starts = tf.gather_nd(words.starts, longer)
    lengths = tf.gather_nd(words.lengths, longer)
    columns = [tf.gather_nd(first, longer)]
    for offset in range(8, _COMPARED, 8):
        more = _eight_bytes(content, starts + offset)
        columns.append(_leading(more, tf.clip_by_value(lengths - offset, 0, 8)))
    columns = [tf.bitcast(column, tf.int64) for column in columns]
    # A word that is too long for deduplication has its position as a unique key.
    columns[0] = tf.where(lengths > _COMPARED, starts, columns[0])
    _, number = tf.raw_ops.UniqueV2(
        x=tf.stack(columns, axis=1), axis=[0], out_idx=tf.int64
    )
    rows = number * 0x100 + tf.minimum(lengths, _COMPARED + 1)
    return tf.tensor_scatter_nd_update(keys, longer, rows)


def _eight_bytes(content: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Reads eight bytes at each start, uint64 (W,), from aligned blocks of eight."""
    place = tf.bitwise.right_shift(starts, tf.constant(3, tf.int64))[:, tf.newaxis]
    # In int64: oneDNN logs warnings to stderr for uint64.
    bits = (starts & 7) * 8
    down, up = tf.bitcast(bits, tf.uint64), tf.bitcast(63 - bits, tf.uint64)
    lower = tf.bitwise.right_shift(tf.gather_nd(content, place), down)
    # In two steps: a shift by 64 bits is undefined.
    upper = tf.bitwise.left_shift(tf.gather_nd(content, place + 1), up)
    return lower | tf.bitwise.left_shift(upper, tf.constant(1, tf.uint64))


def _leading(eight_bytes: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """Shifts the first `kept` bytes to the highest bits, and clears all other bits."""
    half = tf.bitcast((8 - kept) * 4, tf.uint64)
    return tf.bitwise.left_shift(tf.bitwise.left_shift(eight_bytes, half), half)
