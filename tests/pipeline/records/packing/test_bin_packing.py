"""Filling records: nothing over, nothing left out, next to no room wasted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.packing.bin_packing import fill_pairs, fill_records


def totals(lengths: np.ndarray, record: np.ndarray) -> np.ndarray:
    return np.bincount(record, lengths).astype(int)


def test_exact_fits_are_found() -> None:
    # The longest with the longest leaves no way to fill up: 6 goes with 4, not 5.
    lengths = np.array([6, 5, 4, 5])
    record = fill_records(lengths, 10)
    assert record.tolist() == [0, 1, 0, 1]


def test_best_fit_would_leave_room_here() -> None:
    # Best fit puts 7 7 7 into a record of 24 and has three left over each time.
    lengths = np.array([7] * 12 + [5] * 12)
    assert (totals(lengths, fill_records(lengths, 24)) == 24).all()


def test_of_equal_chunks_the_first_comes_first() -> None:
    assert fill_records(np.array([2, 2, 2, 2]), 4).tolist() == [0, 0, 1, 1]
    assert fill_records(np.array([3, 3, 3]), 4).tolist() == [0, 1, 2]


def test_nothing_to_fill() -> None:
    assert fill_records(np.zeros(0, np.int64), 8).tolist() == []


def least_records(lengths: list[int], capacity: int) -> int:
    """By trying every way; for a handful of chunks."""
    best = len(lengths)

    def place(index: int, rooms: list[int]) -> None:
        nonlocal best
        if len(rooms) >= best and index < len(lengths):
            return
        if index == len(lengths):
            best = min(best, len(rooms))
            return
        for i, room in enumerate(rooms):
            if room >= lengths[index]:
                left = room - lengths[index]
                place(index + 1, [*rooms[:i], left, *rooms[i + 1 :]])
        place(index + 1, [*rooms, capacity - lengths[index]])

    place(0, [])
    return best


@given(st.lists(st.integers(1, 9), max_size=8))
def test_at_most_one_record_more_than_is_needed(lengths: list[int]) -> None:
    record = fill_records(np.array(lengths, np.int64), 9)
    needed = least_records(lengths, 9)
    assert needed <= record.max(initial=-1) + 1 <= needed + 1


@given(
    st.integers(1, 40).flatmap(
        lambda capacity: st.tuples(
            st.just(capacity), st.lists(st.integers(1, capacity), max_size=120)
        )
    )
)
def test_what_holds_always(case: tuple[int, list[int]]) -> None:
    capacity, chunks = case
    lengths = np.array(chunks, np.int64)
    record = fill_records(lengths, capacity)
    filled = np.sort(totals(lengths, record))
    assert (filled > 0).all()
    assert filled.max(initial=0) <= capacity
    if len(filled) > 1:
        assert filled[0] + filled[1] > capacity
    for length in set(chunks):  # equal chunks keep their order
        assert (np.diff(record[lengths == length]) >= 0).all()


@pytest.mark.parametrize("capacity", [128, 512])
def test_short_texts_of_much_the_same_length(capacity: int) -> None:
    lengths = np.random.default_rng(0).poisson(14, 5000) + 3
    record = fill_records(lengths, capacity)
    assert lengths.sum() / (capacity * (record.max() + 1)) > 0.99


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 7)), max_size=60),
)
def test_pairs_fit_on_both_sides(pairs: list[tuple[int, int]]) -> None:
    sides = np.array(pairs, np.int64).reshape(-1, 2)
    record = fill_pairs(sides[:, 0], sides[:, 1], (20, 7))
    assert totals(sides[:, 0], record).max(initial=0) <= 20
    assert totals(sides[:, 1], record).max(initial=0) <= 7
    assert set(record.tolist()) == set(range(record.max(initial=-1) + 1))
