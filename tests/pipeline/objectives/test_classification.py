"""Classification of texts and of pairs: framing, labels and what is cut off."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import (
    LETTERS,
    WordTokenizer,
    letters,
    run_of,
)
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    PairClassificationConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import classification, pair_classification
from transbeam.pipeline.objectives.base.pooled import longest_first

ONE = ClassificationConfig(labels=("bad", "good"))
TWO = PairClassificationConfig(labels=("no", "yes"))


def test_one_text() -> None:
    documents = [Document("a b c", "x", 0, label="good")]
    records = records_of(classification, run_of(ONE, 8), documents)
    assert letters(records.arrays["token_ids"][0]) == "<abc>..."
    assert records.arrays["document_ids"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0]]
    assert records.arrays["position_ids"].tolist() == [[0, 1, 2, 3, 4, 0, 0, 0]]
    assert records.arrays["label"].tolist() == [1]
    assert records.lengths.tolist() == [5]
    assert records.counts == {
        "tokens": 3,
        "unknown_tokens": 0,
        "truncated_documents": 0,
        "truncated_tokens": 0,
        "padding": 3,
        "empty_documents": 0,
    }


def test_a_long_text_loses_its_end_and_is_counted() -> None:
    documents = [Document("a b c d ? f g h", "x", 0, label="bad")]
    records = records_of(classification, run_of(ONE, 8), documents)
    assert letters(records.arrays["token_ids"][0]) == "<abcd?f>"
    assert records.counts["truncated_tokens"] == 2
    assert records.counts["truncated_documents"] == 1
    assert records.counts["tokens"] == 6
    assert records.counts["unknown_tokens"] == 1


def test_what_cannot_be_used_is_said() -> None:
    documents = [
        Document("a", "x", 0, label="good"),
        Document("b", "x", 1, label="Good"),
        Document("c", "x", 2),
        Document("~", "x", 3, label="bad"),
        Document("", "x", 4, label="bad"),
    ]
    records = records_of(classification, run_of(ONE, 8), documents)
    assert records.rejected == [
        (1, "label 'Good' is not one of the configured labels (bad, good)"),
        (2, "no label"),
        (4, "no text"),
    ]
    assert records.counts["empty_documents"] == 1
    assert records.placement.document.tolist() == [0]


@pytest.mark.parametrize("missing", ["begin", "end"])
def test_a_special_piece_that_is_missing_is_named(missing: str) -> None:
    special = replace(LETTERS.special, **{missing: None})
    tokenizer = WordTokenizer("a", special)
    documents = [Document("a", "x", 0, label="good")]
    with pytest.raises(ConfigError, match=r"classification needs .* tokenizer\.kind="):
        records_of(classification, run_of(ONE, 8), documents, tokenizer)


def test_pair_has_two_segments() -> None:
    documents = [Document("a b", "x", 0, second_text="c", label="yes")]
    records = records_of(pair_classification, run_of(TWO, 8), documents)
    assert letters(records.arrays["token_ids"][0]) == "<ab>c>.."
    assert records.arrays["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 0, 0]]
    assert records.arrays["document_ids"].tolist() == [[1, 1, 1, 1, 1, 1, 0, 0]]
    assert records.arrays["position_ids"].tolist() == [[0, 1, 2, 3, 4, 5, 0, 0]]
    assert records.arrays["label"].tolist() == [1]


def test_pair_that_is_too_long() -> None:
    documents = [
        Document("a b c d e f", "x", 0, second_text="x y z", label="no"),
        Document("a", "x", 1, second_text="m n o p q r", label="yes"),
    ]
    records = records_of(pair_classification, run_of(TWO, 8), documents)
    shown = {letters(row) for row in records.arrays["token_ids"]}
    assert shown == {"<abc>xy>", "<a>mnop>"}
    assert records.counts["truncated_tokens"] == 4 + 2
    assert records.counts["truncated_documents"] == 2


def test_pair_without_its_other_half() -> None:
    documents = [
        Document("a", "x", 0, label="no"),
        Document("a", "x", 1, second_text="~", label="no"),
        Document("a", "x", 2, second_text="b", label="maybe"),
    ]
    records = records_of(pair_classification, run_of(TWO, 8), documents)
    assert len(records) == 0
    assert [reason[:12] for _, reason in records.rejected] == [
        "no second_te",
        "label 'maybe",
    ]
    assert records.counts["empty_documents"] == 1


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40))
def test_longest_first_is_that_of_bert(first: int, second: int, room: int) -> None:
    kept = [first, second]
    while sum(kept) > room:  # _truncate_seq_pair of google-research/bert
        kept[0 if kept[0] > kept[1] else 1] -= 1
    found = longest_first(np.array([first]), np.array([second]), room)
    assert [int(side[0]) for side in found] == kept


texts = st.text("abcdefg~ ", max_size=30)


@given(st.lists(st.tuples(texts, texts, st.sampled_from(["no", "yes", "x", ""]))))
def test_shuffling_does_not_show(rows: list[tuple[str, str, str]]) -> None:
    documents = [
        Document(text, "x", i, second_text=second, label=label)
        for i, (text, second, label) in enumerate(dict.fromkeys(rows))
    ]
    assert_same_when_shuffled(pair_classification, run_of(TWO, 12), documents, LETTERS)
    one = ClassificationConfig(labels=("no", "yes"))
    assert_same_when_shuffled(classification, run_of(one, 12), documents, LETTERS)
