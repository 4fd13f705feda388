"""Records of pairs: a row for each text, and hashes by which equal texts are found."""

from hashlib import blake2b

import numpy as np
import pytest

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import LETTERS, letters, run_of
from transbeam.configs.schema.objectives.contrastive import ContrastivePairsConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import contrastive_pairs as module
from transbeam.pipeline.records.features import Records

PAIRS = run_of(ContrastivePairsConfig(), 8)
NEGATIVES = run_of(ContrastivePairsConfig(hard_negatives=True), 8)
DOCUMENTS = [
    Document("a b", "x", 0, second_text="c", negative_text="d e"),
    Document("f", "x", 1, second_text="a b"),
    Document("g h i j k l m n", "x", 2, second_text="o", negative_text="o"),
    Document("p", "x", 3, second_text="~p", negative_text="q"),
    Document("", "x", 4, second_text="r"),
    Document("s", "x", 5),
    Document("t", "x", 6, second_text="~"),
    Document("u", "x", 7, second_text="v", negative_text="~"),
]


def by_first(records: Records) -> dict[str, int]:
    """The record of each first text."""
    first = records.arrays["token_ids"][:, 0]
    return {letters(ids).strip("<>."): row for row, ids in enumerate(first)}


def test_each_text_has_a_row() -> None:
    records = records_of(module, NEGATIVES, DOCUMENTS)
    row = by_first(records)["ab"]
    texts = [letters(ids) for ids in records.arrays["token_ids"][row]]
    assert texts == ["<ab>....", "<c>.....", "<de>...."]
    assert records.arrays["document_ids"][row].tolist() == [
        [1, 1, 1, 1, 0, 0, 0, 0],
        [2, 2, 2, 0, 0, 0, 0, 0],
        [3, 3, 3, 3, 0, 0, 0, 0],
    ]
    assert records.arrays["position_ids"][row, 2].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert records.lengths[row] == 4 + 3 + 4


def test_what_cannot_be_used_is_counted() -> None:
    records = records_of(module, PAIRS, DOCUMENTS)
    assert sorted(by_first(records)) == ["ab", "f", "ghijkl", "u"]
    assert dict(records.rejected) == {4: "no text", 5: "no second_text"}
    assert records.filtered == [(3, "both texts of the pair have the same tokens")]
    assert records.counts["empty_documents"] == 1
    assert records.counts["truncated_documents"] == 1
    assert records.counts["truncated_tokens"] == 2
    assert records.arrays["token_ids"].shape == (4, 2, 8)
    assert "hard_negatives" not in records.counts


def test_pairs_of_equal_texts_can_be_kept() -> None:
    config = ContrastivePairsConfig(hard_negatives=True, equal_texts="keep")
    records = records_of(module, run_of(config, 8), DOCUMENTS)
    row = by_first(records)["p"]
    texts = [letters(ids) for ids in records.arrays["token_ids"][row]]
    assert texts == ["<p>.....", "<p>.....", "<q>....."]
    hashes = records.arrays["text_hashes"][row]
    assert hashes[0].tolist() == hashes[1].tolist() != hashes[2].tolist()
    assert records.filtered == []
    assert records.counts["hard_negatives"] == 2


def test_equal_texts_have_equal_hashes_in_every_column() -> None:
    records = records_of(module, NEGATIVES, DOCUMENTS)
    rows, hashes = by_first(records), records.arrays["text_hashes"]
    np.testing.assert_array_equal(hashes[rows["ab"], 0], hashes[rows["f"], 1])
    there = hashes.reshape(-1, 2)[hashes.any(axis=-1).reshape(-1)]
    # Four pairs and one negative, of which two texts are equal.
    assert len(there) == 9
    assert len(np.unique(there, axis=0)) == 8


def test_texts_are_equal_if_the_model_reads_the_same() -> None:
    """Behind the end of a row, and in what the tokenizer drops, they may differ."""
    pairs = [
        Document("a b c d e f g", "x", 0, second_text="h"),
        Document("a b c ~d e f", "x", 1, second_text="i"),
    ]
    hashes = records_of(module, PAIRS, pairs).arrays["text_hashes"]
    np.testing.assert_array_equal(hashes[0, 0], hashes[1, 0])


def test_a_negative_that_is_missing_or_of_the_pair_has_no_hash() -> None:
    records = records_of(module, NEGATIVES, DOCUMENTS)
    rows, arrays = by_first(records), records.arrays
    for first in ("f", "ghijkl", "u"):
        assert not arrays["text_hashes"][rows[first], 2].any()
        assert letters(arrays["token_ids"][rows[first], 2]) == "<>......"
    assert arrays["text_hashes"][rows["ab"], 2].any()
    assert records.counts["hard_negatives"] == 1
    assert records.counts["ignored_negatives"] == 2  # "o" and "~"


def test_the_hash_of_a_text_is_that_of_its_tokens() -> None:
    records = records_of(module, PAIRS, DOCUMENTS[:1])
    tokens = np.array([[4, 5], [6, 6]], "<i4")  # "a b", and "c" alone
    expected = [
        np.frombuffer(blake2b(ids.tobytes(), digest_size=8).digest(), "<i4").tolist()
        for ids in (tokens[0], tokens[1, :1])
    ]
    assert records.arrays["text_hashes"].tolist() == [expected]


@pytest.mark.parametrize("run", [PAIRS, NEGATIVES], ids=["pairs", "negatives"])
def test_the_order_of_documents_does_not_matter(run) -> None:
    assert_same_when_shuffled(module, run, DOCUMENTS, LETTERS)
