"""Packing neither loses, repeats nor tears what fits, and depends on content only."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transbeam.pipeline.records.packing.sequence_packing import (
    BLOCK_TOKENS,
    Packed,
    cut_documents,
    pack,
)

CLS, SEP, PAD = 2, 3, 0


def packed_from(documents: list[list[int]], length: int, **how) -> Packed:
    ids = np.array([i for document in documents for i in document], np.int32)
    row_splits = np.cumsum([0, *map(len, documents)])
    hashes = [hash(tuple(document)) % 2**64 for document in documents]
    keys = np.array(hashes, np.uint64)
    how = {"begin": CLS, "end": SEP, **how}
    frame = (how["begin"] is not None) + (how["end"] is not None)
    chunks = cut_documents(row_splits, keys, length - frame)
    return pack(ids, chunks, length, pad=PAD, **how)


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
    assert packed.record.tolist() == [0, 0]
    assert packed.chunks.documents.tolist() == [0, 1]
    assert packed.lengths.tolist() == [8]


def test_without_framing_pieces() -> None:
    packed = packed_from([[11, 12, 13], [21]], length=5, begin=None, end=None)
    np.testing.assert_array_equal(packed.token_ids, [[11, 12, 13, 21, PAD]])
    np.testing.assert_array_equal(packed.document_ids, [[1, 1, 1, 2, 0]])
    np.testing.assert_array_equal(packed.position_ids, [[0, 1, 2, 0, 0]])
    np.testing.assert_array_equal(packed.is_content, [[1, 1, 1, 1, 0]])


def test_only_an_end() -> None:
    packed = packed_from([[11, 12, 13], [21]], length=7, begin=None)
    np.testing.assert_array_equal(packed.token_ids, [[11, 12, 13, SEP, 21, SEP, PAD]])
    np.testing.assert_array_equal(packed.is_content, [[1, 1, 1, 0, 1, 0, 0]])


def test_one_document_in_a_record() -> None:
    packed = packed_from([[11, 12], [21], [31]], length=5, together=False)
    assert sorted(packed.token_ids.tolist()) == [
        [CLS, 11, 12, SEP, PAD],
        [CLS, 21, SEP, PAD, PAD],
        [CLS, 31, SEP, PAD, PAD],
    ]


def test_long_document_is_cut_and_counted_through() -> None:
    packed = packed_from([list(range(10, 20))], length=6)
    chunks = [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]
    assert sorted(documents_of(packed)) == chunks
    first = packed.token_ids[:, 1]
    placement = packed.placement
    assert placement.record.tolist() == [0, 1, 2]
    assert placement.document.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(placement.offset, first - 10)


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


@given(documents, st.integers(4, 16))
def test_placement_tells_where_each_token_is_from(
    documents: list[list[int]], length: int
) -> None:
    packed = packed_from(documents, length)
    place = packed.placement
    assert (np.diff(place.record) >= 0).all()
    found = documents_of(packed)
    assert len(found) == len(place.record)
    for content, document, offset in zip(
        found, place.document, place.offset, strict=True
    ):
        assert content == documents[document][offset : offset + len(content)]


@given(documents, st.randoms(use_true_random=False))
def test_order_of_arrival_does_not_show(documents: list[list[int]], random) -> None:
    shuffled = list(documents)
    random.shuffle(shuffled)
    first, second = packed_from(documents, 12), packed_from(shuffled, 12)
    for name in ("token_ids", "document_ids", "position_ids", "is_content", "record"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_more_records_than_one_block() -> None:
    # Records are laid in blocks; the seams must not show.
    random = np.random.default_rng(0)
    sizes = random.integers(1, 40, 4000)
    documents = [random.integers(5, 99, size).tolist() for size in sizes]
    packed = packed_from(documents, 16)
    assert packed.token_ids.size > 2 * BLOCK_TOKENS
    place = packed.placement
    for content, document, offset in zip(
        documents_of(packed), place.document, place.offset, strict=True
    ):
        assert content == documents[document][offset : offset + len(content)]
