"""Rows of ids: what is cut, joined and laid out is where it should be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.token_rows import (
    Grid,
    TokenRows,
    join_rows,
    ranges,
    slice_rows,
    split_rows,
)

rows_lists = st.lists(st.lists(st.integers(1, 99), max_size=6), max_size=8)


def rows_from(rows: list[list[int]]) -> TokenRows:
    lengths = np.array([len(row) for row in rows], np.int64)
    return split_rows(np.array([i for row in rows for i in row], np.int32), lengths)


def lists_of(rows: TokenRows) -> list[list[int]]:
    return [part.tolist() for part in np.split(rows.ids, rows.row_splits[1:-1])][
        : len(rows.lengths)
    ]


@given(rows_lists)
def test_beside_joins_row_by_row(rows: list[list[int]]) -> None:
    joined = join_rows(7, rows_from(rows), 8, rows_from(rows[::-1]))
    both = zip(rows, rows[::-1], strict=True)
    assert lists_of(joined) == [[7, *row, 8, *other] for row, other in both]
    assert joined.ids.dtype == np.int32


@given(rows_lists, st.data())
def test_stretches_are_slices(rows: list[list[int]], data: st.DataObject) -> None:
    if not rows:
        return
    which = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
    starts = [data.draw(st.integers(0, len(rows[row]))) for row in which]
    ends = [
        data.draw(st.integers(start, len(rows[row])))
        for row, start in zip(which, starts, strict=True)
    ]
    taken = slice_rows(
        rows_from(rows),
        np.array(which, np.int64),
        np.array(starts, np.int64),
        np.array(ends, np.int64) - np.array(starts, np.int64),
    )
    cuts = zip(which, starts, ends, strict=True)
    assert lists_of(taken) == [rows[row][start:end] for row, start, end in cuts]


def test_rows_side_by_side() -> None:
    rows = rows_from([[5, 6], [7], [8, 9, 10]])
    grid = Grid.from_lengths(rows.lengths, 4, np.array([0, 0, 1]))
    arrays = grid.token_arrays(rows.ids, 1, "encoder_")
    assert arrays["encoder_token_ids"].tolist() == [[5, 6, 7, 1], [8, 9, 10, 1]]
    assert arrays["encoder_document_ids"].tolist() == [[1, 1, 2, 0], [1, 1, 1, 0]]
    assert arrays["encoder_position_ids"].tolist() == [[0, 1, 0, 0], [0, 1, 2, 0]]
    assert grid.padding == 2


def test_nothing() -> None:
    none = rows_from([])
    grid = Grid.from_lengths(none.lengths, 4)
    assert grid.put(none.ids).shape == (0, 4)
    assert join_rows(1, none).ids.shape == (0,)
    assert ranges(none.lengths).tolist() == []
