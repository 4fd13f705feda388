"""Which tokens of a record are hidden: single ones, whole words or runs of words.

Tokens that are hidden together are a *unit*: a word, or several. Units are taken in
random order while the number of tokens wanted allows; one too long is passed over.
`transbeam.trainer.input.dynamic_masking` does the same in TensorFlow.
"""

import numpy as np

from transbeam.pipeline.documents.randomness import GOLDEN, mix
from transbeam.pipeline.records.packing.sequence_packing import Packed


class TokenBits:
    """64 random bits for each token, by its document and its place in it.

    They depend on the same things as the numbers of
    `transbeam.pipeline.documents.randomness.uniform`.

    Args:
        packed: The records.
        key: From `transbeam.pipeline.documents.randomness.stage_key`.
    """

    def __init__(self, packed: Packed, key: int) -> None:
        self._packed = packed
        self._chunk_before = packed.first_chunks(slice(None))[:, np.newaxis] - 1
        # What is the same for a whole chunk is computed once for it.
        places = (packed.chunks.offsets.astype(np.uint64) + np.uint64(1)) * GOLDEN
        self._by_chunk = mix(packed.chunks.keys ^ np.uint64(key)) + places

    def select(self, rows: slice, columns: np.ndarray | None = None) -> np.ndarray:
        """uint64. The bits of some records' tokens; of padding, any.

        Args:
            rows: Which records.
            columns: int (rows, n). Which tokens of each. None: all.
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


def wanted_tokens(content: np.ndarray, fraction: float, slots: int) -> np.ndarray:
    """int64 (records,). How many tokens to hide: the share, rounded, at least one.

    Args:
        content: int (records,). Tokens to choose from.
        fraction: The share.
        slots: The most there can be.
    """
    wanted = np.clip(np.rint(content * fraction), 1, slots)
    return np.minimum(wanted, content).astype(np.int64)


def word_ids(
    packed: Packed, rows: slice, starts_word: np.ndarray | None = None
) -> np.ndarray:
    """Numbers the words of each of some records from 1; 0 on framing and padding.

    Args:
        packed: The records.
        rows: Which of them.
        starts_word: bool (V,). Whether a piece begins a new word. None: each does.

    Returns:
        int32 (records, L).
    """
    content = starts = packed.is_content[rows]
    if starts_word is not None:
        # A chunk begins with a word, even if it begins within one.
        document_ids = packed.document_ids[rows]
        goes_on = np.zeros_like(content)
        goes_on[:, 1:] = document_ids[:, 1:] == document_ids[:, :-1]
        goes_on[:, 1:] &= content[:, :-1]
        starts = content & (starts_word[packed.token_ids[rows]] | ~goes_on)
    return np.cumsum(starts, axis=1, dtype=np.int32) * content


def length_shares(longest: int) -> np.ndarray:
    """float64. The chance of each length of an n-gram, 1 … longest: as 1/n.

    References:
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942), ALBERT, section 4.1
        - [Joshi et al., 2020](https://arxiv.org/abs/1907.10529), SpanBERT, the idea
    """
    shares = 1.0 / np.arange(1, longest + 1)
    return shares / shares.sum()


def stopping_chances(longest: int) -> np.ndarray:
    """The chance that a run of n words, n = 1 … longest, gets no further word.

    Example:
    >>> stopping_chances(2).round(3).tolist()
    [0.667, 1.0]
    """
    shares = length_shares(longest)
    return shares / np.cumsum(shares[::-1])[::-1]


def join_words(
    words: np.ndarray, document_ids: np.ndarray, draws: np.ndarray, longest: int
) -> np.ndarray:
    """Joins neighbouring words of a document into units of up to `longest` words.

    Args:
        words: int32 (records, L). From `word_ids`.
        document_ids: int32 (records, L).
        draws: float64 (records, L) in [0, 1).
        longest: Words of a unit at most.

    Returns:
        int32 (records, L). Units numbered from 1; 0 where no word is.
    """
    if longest == 1:
        return words
    stop = stopping_chances(longest)
    units = np.zeros_like(words)
    run = np.zeros(len(words), np.int64)  # words of the unit so far
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


def choose(
    units: np.ndarray, bits: np.ndarray, wanted: np.ndarray, slots: int
) -> np.ndarray:
    """Chooses units in random order, as many tokens of each record as wanted.

    So that each record has something to learn, a first unit is also taken if it is
    longer than that.

    Args:
        units: int32 (records, L). Which tokens go together, from 1; 0: not for choice.
        bits: uint64 (records, L). Random; those at a unit's first token count.
        wanted: int64 (records,). Tokens to choose.
        slots: Tokens to choose at most, come what may.

    Returns:
        int64 (records, slots). The columns of the chosen tokens, ascending; L in slots
        that are left over.
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
    """The first columns of each record's order, as `choose` returns them."""
    used = np.arange(slots) < wanted[:, np.newaxis]
    columns = np.where(used, order[:, :slots], order.shape[1])
    columns.sort(axis=1)
    return columns


def random_order(is_choice: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """int64 (records, L). The columns in random order, those to choose from first.

    Args:
        is_choice: bool (records, L).
        bits: uint64 (records, L).
    """
    # Each number carries its column: sorting numbers is far faster than sorting
    # indices, and no two are equal.
    length = bits.shape[1]
    width = max(1, (length - 1).bit_length())
    scores = (bits >> np.uint64(33)).astype(np.uint32)
    scores &= np.uint32(2**31 - 2**width)
    scores |= np.arange(length, dtype=np.uint32)
    scores |= (~is_choice).view(np.uint8).astype(np.uint32) << np.uint32(31)
    scores.sort(axis=1)
    return (scores & np.uint32(2**width - 1)).astype(np.int64)


def _that_fit(sizes: np.ndarray, wanted: np.ndarray, slots: int) -> np.ndarray:
    """Goes through units (records, U) in order and takes those that still fit."""
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
