"""Packing neither loses, repeats nor tears what fits, and depends on content only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.packing import Packed, best_fit, cut_documents, pack

CLS, SEP, PAD = 2, 3, 0


def packed_from(documents: list[list[int]], length: int) -> Packed:
    ids = np.array([i for document in documents for i in document], np.int32)
    row_splits = np.cumsum([0, *map(len, documents)])
    hashes = [hash(tuple(document)) % 2**64 for document in documents]
    keys = np.array(hashes, np.uint64)
    chunks = cut_documents(row_splits, keys, length - 2)
    return pack(ids, chunks, length, cls_id=CLS, sep_id=SEP, pad_id=PAD)


def documents_of(packed: Packed) -> list[list[int]]:
    """The content of every document slot of every record."""
    found = []
    for tokens, owners in zip(packed.token_ids, packed.document_ids, strict=True):
        for owner in range(1, owners.max(initial=0) + 1):
            framed = tokens[owners == owner].tolist()
            assert framed[0] == CLS
            assert framed[-1] == SEP
            found.append(framed[1:-1])
    return found


def test_two_documents_in_one_record() -> None:
    packed = packed_from([[11, 12, 13], [21]], length=9)
    np.testing.assert_array_equal(
        packed.token_ids, [[CLS, 11, 12, 13, SEP, CLS, 21, SEP, PAD]]
    )
    np.testing.assert_array_equal(packed.document_ids, [[1, 1, 1, 1, 1, 2, 2, 2, 0]])
    np.testing.assert_array_equal(packed.position_ids, [[0, 1, 2, 3, 4, 0, 1, 2, 0]])
    np.testing.assert_array_equal(packed.is_content, [[0, 1, 1, 1, 0, 0, 1, 0, 0]])
    np.testing.assert_array_equal(packed.counters, [[0, 0, 1, 2, 0, 0, 0, 0, 0]])


def test_long_document_is_cut_and_counted_through() -> None:
    packed = packed_from([list(range(10, 20))], length=6)
    chunks = [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    assert sorted(documents_of(packed)) == chunks
    counters = packed.counters[packed.is_content]
    content = packed.token_ids[packed.is_content]
    np.testing.assert_array_equal(counters, content - 10)


def test_best_fit_prefers_the_tightest_record() -> None:
    assert best_fit(np.array([5, 4, 3, 2]), 7) == [[0, 3], [1, 2]]


def test_no_documents() -> None:
    packed = packed_from([], length=8)
    assert packed.token_ids.shape == (0, 8)


documents = st.lists(st.lists(st.integers(5, 99), max_size=30), max_size=25)


@given(documents, st.integers(4, 16))
def test_every_token_once(documents: list[list[int]], length: int) -> None:
    packed = packed_from(documents, length)
    chunks = [
        document[start : start + length - 2]
        for document in documents
        for start in range(0, len(document), length - 2)
    ]
    assert sorted(documents_of(packed)) == sorted(chunks)
    padding = packed.document_ids == 0
    assert not packed.position_ids[padding].any()
    assert (packed.token_ids[padding] == PAD).all()


@given(documents, st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_show(documents: list[list[int]], random) -> None:
    shuffled = list(documents)
    random.shuffle(shuffled)
    first, second = packed_from(documents, 12), packed_from(shuffled, 12)
    for name in vars(first):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("capacity", [8, 128])
def test_at_most_one_record_is_less_than_half_full(capacity: int) -> None:
    lengths = np.random.default_rng(0).integers(3, capacity + 1, 1000)
    fill = sorted(lengths[record].sum() for record in best_fit(lengths, capacity))
    assert fill[-1] <= capacity
    assert all(total > capacity / 2 for total in fill[1:])
