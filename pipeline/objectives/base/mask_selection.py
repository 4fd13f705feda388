"""Selects the tokens to mask in a record: single ones, whole words or n-grams.

Tokens that are masked together are a *unit*: a word, or several adjacent words. Units
are selected in random order up to the requested number of tokens; units that would
exceed this number are skipped. `transbeam.trainer.input.dynamic_masking` does the same
in TensorFlow.
"""

import numpy as np

from transbeam.pipeline.documents.randomness import GOLDEN, mix
from transbeam.pipeline.records.packing.sequence_packing import Packed


class TokenBits:
    """64 random bits per token, derived from its document and token position.

    The bits depend on the same inputs (key, document, position) as the random numbers
    of `transbeam.pipeline.documents.randomness.uniform`.

    Args:
        packed: The records.
        key: From `transbeam.pipeline.documents.randomness.stage_key`.
    """

    def __init__(self, packed: Packed, key: int) -> None:
        self._packed = packed
        self._chunk_before = packed.first_chunks(slice(None))[:, np.newaxis] - 1
        # The part that is constant in a chunk is computed once per chunk.
        places = (packed.chunks.offsets.astype(np.uint64) + np.uint64(1)) * GOLDEN
        self._by_chunk = mix(packed.chunks.keys ^ np.uint64(key)) + places

    def select(self, rows: slice, columns: np.ndarray | None = None) -> np.ndarray:
        """Returns random bits of some records' tokens, uint64; arbitrary at padding.

        Args:
            rows: The records.
            columns: int (rows, n). The columns of the tokens to return, in each record.
                None: all.
        """
        ordinal = self._packed.document_ids[rows]
        position = self._packed.position_ids[rows]
        if columns is not None:
            ordinal = np.take_along_axis(ordinal, columns, axis=1)
            position = np.take_along_axis(position, columns, axis=1)
        chunk = ordinal + self._chunk_before[rows]
        bits = position.astype(np.uint64)
        bits *= GOLDEN
        bits += self._by_chunk.take(chunk, mode="clip")
        return mix(bits)


def mask_counts(content: np.ndarray, fraction: float, slots: int) -> np.ndarray:
    """Returns the number of tokens to mask, int64 (records,): rounded, at least one.

    Args:
        content: int (records,). The number of maskable tokens.
        fraction: The share of tokens to mask.
        slots: The maximum.
    """
    wanted = np.clip(np.rint(content * fraction), 1, slots)
    return np.minimum(wanted, content).astype(np.int64)


def word_ids(
    packed: Packed, rows: slice, starts_word: np.ndarray | None = None
) -> np.ndarray:
    """Numbers the words of each record from 1; 0 at special tokens and padding.

    Args:
        packed: The records.
        rows: The records to number.
        starts_word: bool (V,). Whether each piece of the vocabulary begins a new word.
            None: all do.

    Returns:
        int32 (records, L).
    """
    content = starts = packed.is_content[rows]
    if starts_word is not None:
        # The start of a chunk counts as a word start, even within a word.
        document_ids = packed.document_ids[rows]
        goes_on = np.zeros_like(content)
        goes_on[:, 1:] = document_ids[:, 1:] == document_ids[:, :-1]
        goes_on[:, 1:] &= content[:, :-1]
        starts = content & (starts_word[packed.token_ids[rows]] | ~goes_on)
    return np.cumsum(starts, axis=1, dtype=np.int32) * content


def length_shares(longest: int) -> np.ndarray:
    """Returns the probabilities, proportional to 1/n, of n-gram lengths 1 … longest.

    References:
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942), ALBERT, section 4.1
        - [Joshi et al., 2020](https://arxiv.org/abs/1907.10529), SpanBERT, span masking
    """
    shares = 1.0 / np.arange(1, longest + 1)
    return shares / shares.sum()


def stopping_chances(longest: int) -> np.ndarray:
    """Returns the probability that an n-gram ends after n words, n = 1 … longest.

    Example:
    >>> stopping_chances(2).round(3).tolist()
    [0.667, 1.0]
    """
    shares = length_shares(longest)
    return shares / np.cumsum(shares[::-1])[::-1]


def join_words(
    words: np.ndarray, document_ids: np.ndarray, draws: np.ndarray, longest: int
) -> np.ndarray:
    """Joins adjacent words of a document into units of up to `longest` words.

    Args:
        words: int32 (records, L). From `word_ids`.
        document_ids: int32 (records, L).
        draws: float64 (records, L) in [0, 1).
        longest: The maximum number of words per unit.

    Returns:
        int32 (records, L). Units numbered from 1; 0 outside of words.
    """
    if longest == 1:
        return words
    stop = stopping_chances(longest)
    units = np.zeros_like(words)
    run = np.zeros(len(words), np.int64)  # number of words in the current unit
    unit = np.zeros(len(words), np.int32)
    for column in range(words.shape[1]):
        word = words[:, column]
        previous = words[:, column - 1] if column else np.zeros_like(word)
        same = document_ids[:, column] == document_ids[:, column - 1]
        new_word = (word > 0) & (word != previous)
        ended = ~same | (previous == 0) | (draws[:, column] < stop[run - 1])
        new_unit = new_word & ended
        run = np.where(new_unit, 1, run + new_word)
        unit = unit + new_unit
        units[:, column] = np.where(word > 0, unit, 0)
    return units


def select_units(
    units: np.ndarray, bits: np.ndarray, wanted: np.ndarray, slots: int
) -> np.ndarray:
    """Selects units in random order, up to the requested number of tokens per record.

    In each record the first unit of at most `slots` tokens is selected even if it has
    more tokens than requested, so each record with such a unit has a masked token.

    Args:
        units: int32 (records, L). The unit of each token, from 1; 0: not maskable.
        bits: uint64 (records, L). Random bits; those of a unit's first token determine
            its place in the random order.
        wanted: int64 (records,). The number of tokens to select.
        slots: The maximum number of selected tokens in any record.

    Returns:
        int64 (records, slots). The columns of the selected tokens, ascending; L in
        unused slots.
    """
    length = units.shape[1]
    starts = units > 0
    starts[:, 1:] &= units[:, 1:] != units[:, :-1]
    order = random_order(starts, bits)
    is_unit = np.arange(length) < np.count_nonzero(starts, axis=1)[:, np.newaxis]
    row = np.arange(len(units))[:, np.newaxis]
    flat = units + row * (length + 1)
    sizes = np.bincount(flat.reshape(-1))
    in_order = np.take_along_axis(flat, order, axis=1)
    taken = _that_fit(sizes[in_order] * is_unit, wanted, slots)
    is_chosen = np.zeros(sizes.shape, np.bool_)
    is_chosen[in_order[taken]] = True
    columns = np.where(is_chosen[flat], np.arange(length), length)
    columns.sort(axis=1)
    return columns[:, :slots]


def first_columns(order: np.ndarray, wanted: np.ndarray, slots: int) -> np.ndarray:
    """Returns the first `wanted` columns of each row of `order`, ascending."""
    used = np.arange(slots) < wanted[:, np.newaxis]
    columns = np.where(used, order[:, :slots], order.shape[1])
    columns.sort(axis=1)
    return columns


def random_order(is_choice: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Returns the columns in random order, selectable ones first, int64 (records, L).

    Args:
        is_choice: bool (records, L).
        bits: uint64 (records, L).
    """
    # Each number contains its column: sorting numbers is much faster than argsort, and
    # all numbers are distinct.
    length = bits.shape[1]
    width = max(1, (length - 1).bit_length())
    scores = (bits >> np.uint64(33)).astype(np.uint32)
    scores &= np.uint32(2**31 - 2**width)
    scores |= np.arange(length, dtype=np.uint32)
    scores |= (~is_choice).view(np.uint8).astype(np.uint32) << np.uint32(31)
    scores.sort(axis=1)
    return (scores & np.uint32(2**width - 1)).astype(np.int64)


def _that_fit(sizes: np.ndarray, wanted: np.ndarray, slots: int) -> np.ndarray:
    """Selects units (records, U) greedily in order, as far as they fit."""
    taken = np.zeros(sizes.shape, np.bool_)
    total = np.zeros(len(sizes), np.int64)
    for rank in range(sizes.shape[1]):
        size = sizes[:, rank]
        if not size.any() or (total >= wanted).all():
            break
        room = np.where(total == 0, slots, wanted - total)
        fits = (size > 0) & (size <= room)
        taken[:, rank] = fits
        total += size * fits
    return taken
