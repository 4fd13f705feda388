"""Character offsets of token spans, in the graph.

Tokens do not store the characters that they were made from. If tokens consist of bytes
of the text, offsets are computed by adding up the byte lengths of the tokens. Otherwise
words are tokenized one by one, and a span boundary inside a word is found as the prefix
of the word whose tokens are exactly those before the boundary. A span boundary for
which the word has no such prefix is moved outwards to the next boundary for which there
is a prefix. If the words' tokens differ from the tokens of the whole text, the span is
the whole text.
"""

from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from transbeam.pipeline.tokenizers.analysis.bytes_per_piece import piece_bytes
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.ragged_rows import (
    filter_rows,
    flatten_rows,
    positions_in_rows,
    row_of_each,
)

_Ragged: Any = tf.RaggedTensor
# Python's definition of white space.
_SPACE = r"[\s\x{b}\x{1c}-\x{1f}\x{85}\p{Z}]"
_WORD = r"[^\s\x{b}\x{1c}-\x{1f}\x{85}\p{Z}]+"
_LONGEST = 64  # characters of a word that are searched for boundaries
_NOTHING = -1


class CharSpan(NamedTuple):
    """A character span of each text.

    Attributes:
        begin: int32 (B,), the offset of the span's first character.
        end: int32 (B,), the offset after its last character.
    """

    begin: tf.Tensor
    end: tf.Tensor


def character_spans(
    texts: tf.Tensor,
    tokens: tf.RaggedTensor,
    of_tokens: CharSpan,
    tokenizer: Tokenizer,
) -> CharSpan:
    """Converts token spans to character spans, and strips white space at both ends.

    Args:
        texts: string (B,), UTF-8.
        tokens: int32 (B, None), the tokens of the texts.
        of_tokens: A span of each text, in tokens; not empty.
        tokenizer: The tokenizer that made the tokens.

    Returns:
        The character spans, as offsets in code points.
    """
    found = _by_words(texts, tokens, of_tokens, tokenizer)
    table = piece_bytes(tokenizer)
    if table is not None:
        sizes = tf.gather(tf.constant(table, tf.int32), tokens.values)
        counted, exact = _by_bytes(texts, tokens, of_tokens, sizes, tokenizer)
        found = CharSpan(
            tf.where(exact, counted.begin, found.begin),
            tf.where(exact, counted.end, found.end),
        )
    return _stripped(texts, _in_characters(texts, found))


def _by_bytes(
    texts: tf.Tensor,
    tokens: tf.RaggedTensor,
    of_tokens: CharSpan,
    sizes: tf.Tensor,
    tokenizer: Tokenizer,
) -> tuple[CharSpan, tf.Tensor]:
    """Computes byte spans from token sizes, and whether they are exact: bool (B,)."""
    ends = tf.cumsum(tokens.with_values(sizes), axis=1)
    length = tf.strings.length(texts)
    # A space that the tokenizer added before the text does not count.
    added = tf.reduce_sum(tokens.with_values(sizes), axis=1) - length
    decoded = tokenizer.detokenize(tokens)
    same = _without_leading_spaces(decoded) == _without_leading_spaces(texts)
    begin = tf.maximum(_at(ends, of_tokens.begin - 1) - added, 0)
    end = tf.maximum(_at(ends, of_tokens.end - 1) - added, 0)
    return CharSpan(begin, end), same & (added >= 0)


def _by_words(
    texts: tf.Tensor, tokens: tf.RaggedTensor, of_tokens: CharSpan, tokenizer: Tokenizer
) -> CharSpan:
    """Computes byte spans by tokenizing the words one by one."""
    # `regex_split_with_offsets` treats a zero byte as the end of the text.
    words, begins, ends = tf_text.regex_split_with_offsets(
        tf.strings.regex_replace(texts, r"\x00", "\x01"),
        f"{_WORD}|{_SPACE}+",
        _WORD,
    )
    begins, ends = (tf.cast(each, tf.int32) for each in (begins, ends))
    alone = tokenizer.tokenize(_inside_texts(words, tokenizer))  # (N, None)
    per_word = words.with_values(tf.cast(alone.row_lengths(), tf.int32))
    behind = tf.cumsum(per_word, axis=1)  # tokens up to each word's end
    joined = flatten_rows(words.with_values(alone))

    def edge(token: tf.Tensor, *, is_end: bool) -> tf.Tensor:
        number = tf.reduce_sum(tf.cast(behind <= token[:, None], tf.int32), axis=1)
        word, ids = _at(words, number), _row(words.with_values(alone), number)
        before = token - (_at(behind, number) - _at(per_word, number))
        inside = _edge(word, ids, before + is_end, tokenizer, is_end=is_end)
        return _at(begins, number) + inside

    same = _equal_rows(joined, tokens)
    begin = edge(of_tokens.begin, is_end=False)
    end = edge(of_tokens.end - 1, is_end=True)
    nothing = tf.zeros_like(begin)
    return CharSpan(
        tf.where(same, begin, nothing), tf.where(same, end, tf.strings.length(texts))
    )


def _inside_texts(words: tf.RaggedTensor, tokenizer: Tokenizer) -> tf.Tensor:
    """Returns the words (N,), prefixed so that they tokenize as inside the text."""
    if not tokenizer.word_prefix:
        return words.values
    first = positions_in_rows(words) == 0
    prefixed = tf.strings.join([tokenizer.word_prefix, words.values])
    return tf.where(first, words.values, prefixed)


def _edge(
    words: tf.Tensor,
    ids: tf.RaggedTensor,
    before: tf.Tensor,
    tokenizer: Tokenizer,
    *,
    is_end: bool,
) -> tf.Tensor:
    """Returns the byte offsets of token boundaries in words: int32 (B,).

    Args:
        words: string (B,).
        ids: int32 (B, None), the tokens of the words.
        before: int32 (B,), the number of tokens before the boundary.
        tokenizer: The tokenizer that made the tokens.
        is_end: If true, a boundary that has no exact byte offset is moved forward, else
            back.
    """
    length = tf.strings.length(words, unit="UTF8_CHAR")
    size = tf.minimum(tf.reduce_max(tf.pad(length, [[0, 1]])), _LONGEST)
    cut = tf.broadcast_to(tf.range(1, size + 1), [tf.shape(words)[0], size])
    beginnings = tf.strings.substr(
        tf.repeat(words[:, None], size, axis=1), tf.zeros_like(cut), cut, "UTF8_CHAR"
    )  # (B, C)
    prefixed = tf.strings.join([tokenizer.word_prefix, beginnings])
    rows = tokenizer.tokenize(tf.reshape(prefixed, [-1]))  # (B C, None)
    number = tf.reshape(tf.cast(rows.row_lengths(), tf.int32), tf.shape(cut))
    width = tf.reduce_max(tf.pad(number, [[0, 0], [0, 1]]))
    width = tf.maximum(width, 1)
    shape = tf.stack([-1, tf.cast(width, tf.int64)])
    found = tf.reshape(
        rows.to_tensor(_NOTHING, shape=shape), tf.concat([tf.shape(cut), [width]], 0)
    )
    expected = ids.to_tensor(_NOTHING, shape=shape)[:, None]
    same = tf.reduce_all((found == expected) | (found == _NOTHING), axis=2)
    count = tf.cast(ids.row_lengths(), tf.int32)[:, None]
    there = same & (cut < length[:, None]) & (number < count) & (count > 1)
    # The nearest boundary in the search direction, and the last of its offsets.
    rank = (-number if is_end else number) * (size + 1) + cut
    side = number >= before[:, None] if is_end else number <= before[:, None]
    lowest = tf.int32.min
    best: Any = tf.reduce_max(tf.where(there & side, rank, lowest), axis=1)
    outermost = length if is_end else tf.zeros_like(length)
    index = tf.where(best == lowest, outermost, best % (size + 1))
    index = tf.where(is_end & (before >= count[:, 0]), length, index)
    return tf.strings.length(
        tf.strings.substr(words, tf.zeros_like(index), index, "UTF8_CHAR")
    )


def _in_characters(texts: tf.Tensor, of_bytes: CharSpan) -> CharSpan:
    """Converts byte spans to spans of whole characters."""
    begin, end = (
        tf.strings.length(
            tf.strings.substr(texts, tf.zeros_like(edge), edge), unit="UTF8_CHAR"
        )
        for edge in of_bytes
    )
    rest = tf.strings.substr(texts, of_bytes.end, tf.ones_like(of_bytes.end))
    amid = (tf.strings.length(rest) > 0) & (
        tf.strings.length(rest, unit="UTF8_CHAR") == 0
    )
    return CharSpan(begin, tf.maximum(end - tf.cast(amid, tf.int32), begin))


def _stripped(texts: tf.Tensor, found: CharSpan) -> CharSpan:
    """Strips white space from both ends of the spans."""
    size = found.end - found.begin
    spanned = tf.strings.substr(texts, found.begin, size, unit="UTF8_CHAR")
    late = tf.strings.regex_replace(spanned, f"^{_SPACE}+", "")
    early = tf.strings.regex_replace(late, f"{_SPACE}+$", "")
    late, early = (tf.strings.length(x, unit="UTF8_CHAR") for x in (late, early))
    begin = found.begin + size - late
    return CharSpan(begin, begin + early)


def _without_leading_spaces(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(texts, "^ +", "")


def _at(rows: tf.RaggedTensor, index: tf.Tensor) -> Any:
    """Selects one value of each row, by index: (B,); "" or 0 if out of range."""
    empty = tf.constant("" if rows.dtype == tf.string else 0, rows.dtype)
    values = tf.concat([rows.values, [empty]], axis=0)
    return tf.gather(values, _flat_index(rows, index))


def _row(rows: tf.RaggedTensor, index: tf.Tensor) -> tf.RaggedTensor:
    """Selects one inner row of each row, by index: (B, None); empty if out of range."""
    nothing = _Ragged.from_row_lengths(tf.zeros([0], rows.dtype), [0])
    values = tf.concat([rows.values, nothing], axis=0)
    return tf.gather(values, _flat_index(rows, index))


def _flat_index(rows: tf.RaggedTensor, index: tf.Tensor) -> tf.Tensor:
    """Returns the flat index (B,), into `rows.values`, of one entry of each row.

    For an index beyond the row, the flat index is the total number of entries.
    """
    starts, lengths, total = (
        tf.cast(each, index.dtype)
        for each in (rows.row_starts(), rows.row_lengths(), rows.row_splits[-1])
    )
    inside: Any = (index >= 0) & (index < lengths)
    return tf.where(inside, starts + index, total)


def _equal_rows(one: tf.RaggedTensor, other: tf.RaggedTensor) -> tf.Tensor:
    """Returns whether rows are equal, bool (B,)."""
    alike = one.row_lengths() == other.row_lengths()
    # Rows of equal length only, so that their values are aligned.
    left, right = (
        filter_rows(x, tf.gather(alike, row_of_each(x))) for x in (one, other)
    )
    differs = tf.cast(left.values != right.values, tf.int32)
    count = tf.math.unsorted_segment_sum(differs, row_of_each(left), left.nrows())
    return alike & (count == 0)
