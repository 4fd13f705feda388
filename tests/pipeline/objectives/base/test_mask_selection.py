"""Units of tokens: words stay whole, runs of words have the right lengths."""

import numpy as np
import pytest

from tests.pipeline.records.packing.test_sequence_packing import packed_from
from transbeam.pipeline.documents.randomness import to_unit, uniform
from transbeam.pipeline.objectives.base.mask_selection import (
    TokenBits,
    first_columns,
    join_words,
    length_shares,
    mask_counts,
    random_order,
    select_units,
    word_ids,
)


def bits(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(0, 2**64, (rows, columns), np.uint64)


def test_words_of_a_record() -> None:
    starts_word = np.ones(100, np.bool_)
    starts_word[50:] = False
    packed = packed_from([[11, 51, 12, 52, 53], [54, 13]], length=12)
    assert word_ids(packed, slice(None), starts_word).tolist() == [
        # [CLS] 11 ##51 12 ##52 ##53 [SEP] [CLS] ##54 13 [SEP] [PAD]
        [0, 1, 1, 2, 2, 2, 0, 0, 3, 4, 0, 0]
    ]
    assert word_ids(packed, slice(None)).tolist() == [
        [0, 1, 2, 3, 4, 5, 0, 0, 6, 7, 0, 0]
    ]


def test_bits_are_those_of_the_random_numbers() -> None:
    packed = packed_from([[11, 12, 13], [21], list(range(30, 60))], length=9)
    rows = slice(1, 4)
    owner = packed.first_chunks(rows)[:, None] + packed.document_ids[rows] - 1
    real = packed.document_ids[rows] > 0
    places = packed.chunks.offsets[owner] + packed.position_ids[rows]
    expected = uniform(77, packed.chunks.keys[owner], places)
    found = to_unit(TokenBits(packed, 77).select(rows))
    np.testing.assert_array_equal(found[real], expected[real])


def test_the_smallest_numbers_come_first() -> None:
    draws = bits(50, 37)
    is_choice = np.random.default_rng(1).random((50, 37)) < 0.6
    order = random_order(is_choice, draws)
    counts = is_choice.sum(axis=1)
    for row in range(50):
        columns = np.flatnonzero(is_choice[row])
        expected = columns[np.argsort(draws[row, columns])]
        np.testing.assert_array_equal(order[row, : counts[row]], expected)
        assert sorted(order[row].tolist()) == list(range(37))


def test_left_over_slots() -> None:
    order = np.array([[3, 0, 2, 1]])
    assert first_columns(order, np.array([2]), 3).tolist() == [[0, 3, 4]]


@pytest.mark.parametrize(
    ("content", "wanted"), [(0, 0), (1, 1), (3, 1), (10, 2), (100, 15), (999, 20)]
)
def test_wanted(content: int, wanted: int) -> None:
    assert mask_counts(np.array([content]), 0.15, 20).tolist() == [wanted]


def by_hand(units: list[int], draws: list[int], wanted: int, slots: int) -> list[int]:
    """One record, one step after another."""
    first = {unit: units.index(unit) for unit in units if unit}
    total, chosen = 0, []
    for unit in sorted(first, key=lambda unit: draws[first[unit]]):
        size = units.count(unit)
        if size <= (wanted - total if total else slots):
            total += size
            chosen.append(unit)
    return [column for column, unit in enumerate(units) if unit and unit in chosen]


def test_choosing_is_what_it_is_by_hand() -> None:
    random = np.random.default_rng(3)
    starts = random.random((300, 40)) < 0.4
    starts[:, 0] = True
    units = np.cumsum(starts, axis=1).astype(np.int32)
    units *= random.random((300, 40)) < 0.9  # holes, as at document borders
    same = units[:, 1:] == units[:, :-1]
    for row, column in zip(*np.nonzero(~same & (units[:, 1:] > 0)), strict=True):
        units[row, column + 1 :] += (units[row, column + 1 :] > 0) * 1000
    for row in range(300):  # number anew, as the holes may have cut a unit
        changes = np.diff(units[row], prepend=-1) != 0
        units[row] = np.cumsum(changes & (units[row] > 0)) * (units[row] > 0)
    draws = bits(300, 40)
    wanted = random.integers(1, 8, 300)
    columns = select_units(units, draws, wanted, 9)
    for row in range(300):
        expected = by_hand(
            units[row].tolist(), draws[row].tolist(), int(wanted[row]), 9
        )
        found = columns[row][columns[row] < 40].tolist()
        assert found == expected
        assert (columns[row][len(found) :] == 40).all()


def test_records_full_of_words_are_counted_apart() -> None:
    units = np.array([[1, 2, 3, 4], [1, 2, 3, 4]], np.int32)
    found = select_units(units, bits(2, 4), np.array([4, 4]), 4)
    assert found.tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_word_longer_than_all_slots_is_never_chosen() -> None:
    units = np.array([[1, 1, 1, 1, 1, 2]], np.int32)
    for seed in range(20):
        assert select_units(units, bits(1, 6, seed), np.array([1]), 3)[0, 0] == 5


def test_runs_of_words_have_the_lengths_asked_for() -> None:
    words = np.tile(np.arange(1, 2001, dtype=np.int32), (20, 1))
    draws = to_unit(bits(20, 2000))
    units = join_words(words, np.ones_like(words), draws, 3)
    sizes = np.concatenate([np.bincount(row)[1:-1] for row in units])
    counts = np.bincount(sizes, minlength=4)[1:]
    expected = length_shares(3) * counts.sum()
    assert len(counts) == 3
    # 99.99% of a chi-square with two degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 18.4


def test_runs_stay_in_their_document_and_words_whole() -> None:
    words = np.array([[0, 1, 1, 2, 3, 0, 4, 5, 5, 0]], np.int32)
    documents = np.array([[1, 1, 1, 1, 1, 1, 2, 2, 2, 0]], np.int32)
    units = join_words(words, documents, np.full((1, 10), 0.999), 8)
    assert units.tolist() == [[0, 1, 1, 1, 1, 0, 2, 2, 2, 0]]
    units = join_words(words, documents, np.zeros((1, 10)), 8)
    assert units.tolist() == words.tolist()
    side_by_side = np.array([[1, 2, 3, 4]], np.int32)
    owners = np.array([[1, 1, 2, 2]], np.int32)
    units = join_words(side_by_side, owners, np.full((1, 4), 0.999), 8)
    assert units.tolist() == [[1, 1, 2, 2]]
