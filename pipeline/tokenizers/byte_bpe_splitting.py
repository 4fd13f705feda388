r"""GPT-2's cutting of text into words, by arithmetic on bytes in core TensorFlow ops.

GPT-2 cuts with one regular expression, which RE2 cannot run (it has no look-ahead):

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

But whether a word begins at a character follows from its kind and those of its two
neighbours alone (for `'s` and its like, from the next two letters too). So all
characters of all texts are judged at once, which is also much faster than to search.
"""

import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.tokenizers import unicode_classes
from pipeline.tokenizers.code_points import BLOCK, blocks_of

# Kinds of character. Those from _WHITE on are white space.
_SYMBOL, _LETTER, _NUMBER, _WHITE, _SPACE, _END = range(6)

# Ends each text; UTF-8 never has this byte. It counts as white space, so white space
# before it is the end of a text and not the beginning of a word.
_SEPARATOR = 0xFF

_UTF8 = r"[\x00-\x{d7ff}\x{e000}-\x{10ffff}]*"

# Bytes up to which a word is compared with others; of longer ones each is kept.
_COMPARED = 24
_PADDING = b"\0" * (_COMPARED + 8)
_FIRST_BYTES = np.array([(1 << 8 * kept) - 1 for kept in range(8)] + [-1])


class Words(NamedTuple):
    """Where the words of all texts lie in one row of bytes.

    Attributes:
        content: string (). The texts, with separators and padding.
        starts: int64 (W,). Index of the first byte of each word.
        lengths: int64 (W,). Bytes of each word, at least 1.
        per_text: int64 (N,). Number of words of each text.
    """

    content: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    per_text: tf.Tensor


class UniqueWords(NamedTuple):
    """Different words: their bytes, one after the other.

    Attributes:
        values: uint8 (B,). The bytes of all of them.
        owners: int32 (B,). The word each byte belongs to, in ascending order.
        count: int32 (). Number of words U.
        index: int32 (W,). Which of them each word of the texts is.
    """

    values: tf.Tensor
    owners: tf.Tensor
    count: tf.Tensor
    index: tf.Tensor


def split_into_words(texts: tf.Tensor) -> Words:
    """Finds the words of texts.

    Args:
        texts: string (N,), any bytes. What is not UTF-8 counts as U+FFFD, as in
            `bytes.decode("utf-8", "replace")`.

    Example:
    >>> words = split_into_words(tf.constant(["It's 10  o'clock"]))
    >>> content = words.content.numpy()
    >>> [content[i : i + n] for i, n in zip(words.starts, words.lengths, strict=True)]
    [b'It', b"'s", b' 10', b' ', b' o', b"'", b'clock']
    """
    separator = bytes([_SEPARATOR])
    joined = tf.strings.reduce_join(tf.strings.join([_as_utf8(texts), separator]))
    content = tf.strings.join([separator, joined, _PADDING])
    values = tf.io.decode_raw(content, tf.uint8)[: -len(_PADDING)]
    kinds = _kinds(values)
    starts = tf.where(_is_start(values, kinds))[:, 0]
    is_end = tf.equal(tf.gather(kinds, starts), _END)
    ends = tf.where(is_end)[:, 0]
    words = tf.where(~is_end[:-1])[:, 0]
    return Words(
        content=content,
        starts=tf.gather(starts, words),
        lengths=tf.gather(starts[1:] - starts[:-1], words),
        per_text=ends[1:] - ends[:-1] - 1,
    )


def unique_words(words: Words) -> UniqueWords:
    """Each different word once, but a very long word each time it occurs.

    Example:
    >>> unique = unique_words(split_into_words(tf.constant(["a b b"])))
    >>> bytes(unique.values.numpy()), unique.index.numpy().tolist()
    (b'a b', [0, 1, 1])
    """
    keys, index = tf.unique(_keys(words))
    count = tf.size(keys)
    sample = tf.math.unsorted_segment_max(tf.range(tf.size(index)), index, count)
    starts = tf.gather(words.starts, sample)
    lengths = tf.gather(words.lengths, sample)
    positions = tf.ragged.range(starts, starts + lengths).flat_values
    first = tf.cumsum(lengths, exclusive=True)[:, tf.newaxis]
    is_first = tf.scatter_nd(first, tf.ones_like(sample), tf.shape(positions, tf.int64))
    return UniqueWords(
        values=tf.gather(tf.io.decode_raw(words.content, tf.uint8), positions),
        owners=tf.cumsum(is_first) - 1,
        count=count,
        index=index,
    )


def _as_utf8(texts: tf.Tensor) -> tf.Tensor:
    faulty = tf.where(~tf.strings.regex_full_match(texts, _UTF8))
    mended = tf.strings.unicode_transcode(
        tf.gather_nd(texts, faulty),
        "UTF-8",
        "UTF-8",
        errors="replace",
        replacement_char=0xFFFD,
    )
    return tf.tensor_scatter_nd_update(texts, faulty, mended)


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
_BLOCKS, _BLOCK_OF = blocks_of(_KIND_OF)


def _kinds(values: tf.Tensor) -> tf.Tensor:
    """uint8 (B,), the kind of the character each byte belongs to."""
    kinds = tf.gather(_KIND_OF_BYTE, tf.cast(values, tf.int32))
    first_bytes = tf.where((values >= 0xC0) & (values < _SEPARATOR))
    leading = tf.gather_nd(values, first_bytes)
    for size, first, last in ((2, 0xC0, 0xDF), (3, 0xE0, 0xEF), (4, 0xF0, 0xF7)):
        is_of_size = (leading >= first) & (leading <= last)
        place = tf.boolean_mask(first_bytes, is_of_size)
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
        for offset in range(size):
            kinds = tf.tensor_scatter_nd_update(kinds, place + offset, kind)
    return kinds


def _is_start(values: tf.Tensor, kinds: tf.Tensor) -> tf.Tensor:
    """Whether a word, or a separator, begins at a byte, bool (B,)."""
    end = tf.constant([_END], tf.uint8)
    before = tf.concat([end, kinds[:-1]], axis=0)
    after = tf.concat([kinds[1:], end], axis=0)
    # White space is one word up to its last character, which is a word of its own or,
    # if it is a space, the beginning of the next.
    starts = tf.where(
        kinds >= _WHITE,
        (before < _WHITE) | (after < _WHITE),
        tf.not_equal(kinds, before) & tf.not_equal(before, _SPACE),
    )
    starts |= tf.equal(before, _END) | tf.equal(kinds, _END)
    starts = _at_first_byte(starts, values)
    return _with_contractions(starts, values, before)


def _at_first_byte(starts: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Moves the starts at the last byte of white space of two or three bytes."""
    later = tf.where(starts & (values >= 0x80) & (values < 0xC0))
    is_second = tf.gather_nd(values, later - 1) >= 0xC0
    steps = tf.where(is_second, tf.constant(1, tf.int64), 2)[:, tf.newaxis]
    starts = _set(starts, later, False)
    return _set(starts, later - steps, True)


def _with_contractions(
    starts: tf.Tensor, values: tf.Tensor, before: tf.Tensor
) -> tf.Tensor:
    # After a symbol or a space an apostrophe belongs to a word of symbols.
    apostrophe = tf.equal(values, ord("'"))
    apostrophe &= tf.not_equal(before, _SYMBOL) & tf.not_equal(before, _SPACE)
    place = tf.where(apostrophe)
    one = tf.gather_nd(values, place + 1)
    two = tf.gather_nd(values, tf.minimum(place + 2, tf.size(values, tf.int64) - 1))
    short = tf.reduce_any([tf.equal(one, letter) for letter in b"stmd"], axis=0)
    long = tf.reduce_any(
        [tf.equal(one, a) & tf.equal(two, b) for a, b in (b"re", b"ve", b"ll")], axis=0
    )
    starts = _set(starts, place[short | long] + 1, False)
    starts = _set(starts, place[short] + 2, True)
    return _set(starts, place[long] + 3, True)


def _set(flags: tf.Tensor, place: tf.Tensor, value: bool) -> tf.Tensor:
    return tf.tensor_scatter_nd_update(
        flags, place, tf.fill(tf.shape(place)[:1], value)
    )


def _keys(words: Words) -> tf.Tensor:
    """int64 (W,), equal for equal words: the bytes themselves, if they are few."""
    windows = _windows(words.content)
    few = tf.minimum(words.lengths, 7)
    keys = tf.gather(windows, words.starts) & tf.gather(_FIRST_BYTES, few)
    keys |= tf.bitwise.left_shift(few, tf.constant(56, tf.int64))
    # The key of a longer word is its row's number among all different rows.
    longer = tf.where(words.lengths > 7)
    starts = tf.gather_nd(words.starts, longer)
    lengths = tf.gather_nd(words.lengths, longer)
    columns = [lengths]
    for offset in range(0, _COMPARED, 8):
        kept = tf.clip_by_value(lengths - offset, 0, 8)
        columns.append(
            tf.gather(windows, starts + offset) & tf.gather(_FIRST_BYTES, kept)
        )
    # A word too long to be compared has its place for its bytes: no other has it.
    columns[1] = tf.where(lengths > _COMPARED, starts, columns[1])
    _, number = tf.raw_ops.UniqueV2(
        x=tf.stack(columns, axis=1), axis=[0], out_idx=tf.int64
    )
    return tf.tensor_scatter_nd_update(keys, longer, -1 - number)


def _windows(content: tf.Tensor) -> tf.Tensor:
    """int64 (B,), each byte and the seven after it as one number."""
    size = (tf.strings.length(content) - 8) // 8 * 8
    shifted = [
        tf.io.decode_raw(tf.strings.substr(content, offset, size), tf.int64)
        for offset in range(8)
    ]
    return tf.reshape(tf.stack(shifted, axis=1), [-1])
