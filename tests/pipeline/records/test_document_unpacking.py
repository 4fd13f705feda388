"""Unpacking is the inverse of packing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.document_unpacking import split_documents


@given(st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=4))
def test_documents_come_back_in_the_order_of_the_rows(lengths) -> None:
    width = max(map(sum, lengths)) + 1
    document_ids = np.zeros((len(lengths), width), np.int32)
    expected = []
    for row, of_row in enumerate(lengths):
        ordinals = np.repeat(np.arange(1, len(of_row) + 1), of_row)
        document_ids[row, : len(ordinals)] = ordinals
        for ordinal in range(1, len(of_row) + 1):
            indices = np.flatnonzero(document_ids[row] == ordinal)
            expected.append((row * width + indices).tolist())
    found = split_documents(document_ids)
    assert [document.tolist() for document in found] == expected


def test_a_document_that_fills_its_row_ends_there() -> None:
    full = np.array([[1, 1], [1, 1]])
    assert [part.tolist() for part in split_documents(full)] == [[0, 1], [2, 3]]
    assert split_documents(np.zeros((0, 4), np.int32)) == []
