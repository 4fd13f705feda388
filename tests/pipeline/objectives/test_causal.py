"""Causal and prefix records: every token of a document is predicted once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.language_tokenizer import (
    LETTERS,
    WORDS,
    language_tokenizer,
    random_texts,
)
from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import CLS, PAD, SEP, run_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.objectives.language_modeling import (
    CausalConfig,
    PrefixConfig,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import causal, prefix
from transbeam.pipeline.records.features import Records

GPT = language_tokenizer(" ".join(LETTERS), begin=SEP)
T5 = language_tokenizer(" ".join(LETTERS), begin=None)


def make(texts: list[str], length: int, tokenizer=WORDS, module=causal) -> Records:
    config = CausalConfig() if module is causal else PrefixConfig()
    documents = [Document(text, "x", row) for row, text in enumerate(texts)]
    return records_of(module, run_of(config, length), documents, tokenizer)


def ids(text: str) -> list[int]:
    return WORDS.ids(text)


def test_one_document() -> None:
    records = make(["a b c"], 8)
    a, b, c = ids("a b c")
    arrays = {name: array.tolist() for name, array in records.arrays.items()}
    assert arrays == {
        "token_ids": [[CLS, a, b, c, SEP, PAD, PAD, PAD]],
        "document_ids": [[1, 1, 1, 1, 1, 0, 0, 0]],
        "position_ids": [[0, 1, 2, 3, 4, 0, 0, 0]],
        "target_ids": [[a, b, c, SEP, 0, 0, 0, 0]],
        "target_weights": [[1, 1, 1, 1, 0, 0, 0, 0]],
    }
    assert records.counts == {
        "tokens": 3,
        "unknown_tokens": 0,
        "padding": 3,
        "predictions": 4,
        "empty_documents": 0,
    }


def test_a_document_does_not_predict_its_neighbour() -> None:
    records = make(["a b c", "d"], 8)
    a, b, c, d = ids("a b c d")
    assert records.arrays["token_ids"].tolist() == [[CLS, a, b, c, SEP, CLS, d, SEP]]
    assert records.arrays["target_ids"].tolist() == [[a, b, c, SEP, 0, d, SEP, 0]]
    assert records.arrays["target_weights"].tolist() == [[1, 1, 1, 1, 0, 1, 1, 0]]


def test_a_cut_document_goes_on() -> None:
    records = make(["a b c d e f g"], 8)
    by_offset = np.argsort(records.placement.offset)
    tokens = records.arrays["token_ids"][by_offset]
    targets = records.arrays["target_ids"][by_offset]
    weights = records.arrays["target_weights"][by_offset]
    letters = ids("a b c d e f g")
    assert records.placement.offset[by_offset].tolist() == [0, 8]
    # It is framed as a whole: no end where it was cut, no begin where it goes on.
    assert tokens.tolist() == [[CLS, *letters], [SEP] + [PAD] * 7]
    assert targets.tolist() == [[*letters, SEP], [0] * 8]
    assert weights.tolist() == [[1] * 8, [0] * 8]


@pytest.mark.parametrize("tokenizer", [GPT, T5])
def test_with_an_end_alone(tokenizer) -> None:
    records = make(["a b"], 8, tokenizer)
    a, b = tokenizer.ids("a b")
    assert records.arrays["token_ids"].tolist() == [[a, b, SEP, *[PAD] * 5]]
    assert records.arrays["target_ids"].tolist() == [[b, SEP, *[0] * 6]]


def test_without_an_end() -> None:
    tokenizer = language_tokenizer("a", end=None)
    batch = DocumentBatch.from_documents([Document("a", "x", 0)])
    with pytest.raises(
        ConfigError, match="kind=causal needs a piece that stands after"
    ):
        causal.make_records(batch, tokenizer, run_of(CausalConfig(), 8), "train")


texts = st.lists(
    st.lists(st.sampled_from("abcdefg"), max_size=30).map(" ".join),
    max_size=12,
    unique=True,
)


@given(texts, st.integers(8, 20))
def test_each_document_is_read_and_predicted_once(
    texts: list[str], length: int
) -> None:
    documents = [Document(text, "x", row) for row, text in enumerate(texts)]
    batch = DocumentBatch.from_documents(documents)
    run = run_of(CausalConfig(), length)
    records = causal.make_records(batch, WORDS, run, "train")
    read: dict[int, dict[int, int]] = {row: {} for row in range(len(texts))}
    predicted: dict[int, dict[int, int]] = {row: {} for row in range(len(texts))}
    arrays, place = records.arrays, records.placement
    ordinal = 0
    for index, (record, document, offset) in enumerate(
        zip(place.record, place.document, place.offset, strict=True)
    ):
        is_first = index == 0 or place.record[index - 1] != record
        ordinal = 1 if is_first else ordinal + 1
        mine = arrays["document_ids"][record] == ordinal
        positions = arrays["position_ids"][record][mine]
        assert positions.tolist() == list(range(mine.sum()))
        for position, token, target, weight in zip(
            positions + offset,
            arrays["token_ids"][record][mine],
            arrays["target_ids"][record][mine],
            arrays["target_weights"][record][mine],
            strict=True,
        ):
            read[document][position] = token
            if weight:
                assert position + 1 not in predicted[document]
                predicted[document][position + 1] = target
    for row, text in enumerate(texts):
        framed = dict(enumerate([CLS, *ids(text), SEP])) if text else {}
        assert read[row] == framed
        framed.pop(0, None)
        assert predicted[row] == framed


def test_arrival_does_not_show() -> None:
    documents = [Document(text, "x", 0) for text in random_texts(100, 20)]
    for module, config in ((causal, CausalConfig()), (prefix, PrefixConfig())):
        assert_same_when_shuffled(module, run_of(config, 32), documents, WORDS)


def test_prefix_is_given_and_the_rest_predicted() -> None:
    records = make(
        [f"{' '.join(LETTERS[i : i + 9])}" for i in range(12)], 16, WORDS, prefix
    )
    plain = make([f"{' '.join(LETTERS[i : i + 9])}" for i in range(12)], 16)
    for name in ("token_ids", "document_ids", "position_ids", "target_ids"):
        np.testing.assert_array_equal(records.arrays[name], plain.arrays[name])
    lengths = set()
    for row in range(12):
        given = records.arrays["prefix_mask"][row]
        weights = records.arrays["target_weights"][row]
        count = int(given.sum())
        lengths.add(count)
        assert given.tolist() == [1] * count + [0] * (16 - count)
        # 11 tokens: the last given one predicts the first that is not.
        expected = [0] * (count - 1) + [1] * (11 - count) + [0] * 6
        assert weights.tolist() == expected
        assert 1 <= count <= 10
    assert len(lengths) > 4
    assert records.counts["predictions"] == records.arrays["target_weights"].sum()


def test_every_prefix_is_equally_likely() -> None:
    words = [f"w{i}" for i in range(500)]
    texts = [f"{a} {b} a" for a in words[:80] for b in words[:50]]  # 5 tokens framed
    records = make(texts, 10, WORDS, prefix)
    arrays = records.arrays
    counts = np.zeros(6)
    for ordinal in (1, 2):
        mine = arrays["document_ids"] == ordinal
        counts += np.bincount((arrays["prefix_mask"] * mine).sum(axis=1), minlength=6)
    assert counts[0] == counts[5] == 0
    expected = len(texts) / 4
    # 99.99% of a chi-square with three degrees of freedom.
    assert ((counts[1:5] - expected) ** 2 / expected).sum() < 21.1
