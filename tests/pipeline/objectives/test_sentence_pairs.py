"""Sentence pairs: true neighbours, true strangers, and nothing lost in between."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.objectives.language_tokenizer import MASK, WORDS
from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import CLS, PAD, SEP, run_of
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.objectives import sentence_pairs
from transbeam.pipeline.objectives.base.sentences import split_sentences
from transbeam.pipeline.records.features import Records


def make(texts: list[str], length: int = 32, **changes) -> Records:
    changes = {"sentences": "lines", **changes}
    documents = [Document(text, "x", row) for row, text in enumerate(texts)]
    run = run_of(SentencePairsConfig(**changes), length)
    return records_of(sentence_pairs, run, documents, WORDS)


def unmasked(records: Records) -> np.ndarray:
    arrays = records.arrays
    token_ids = arrays["token_ids"].copy()
    row, slot = np.nonzero(arrays["masked_weights"])
    token_ids[row, arrays["masked_positions"][row, slot]] = arrays["masked_ids"][
        row, slot
    ]
    return token_ids


def segments(records: Records):
    """Both segments of each record, as ids."""
    for tokens, parts, owners in zip(
        unmasked(records),
        records.arrays["segment_ids"],
        records.arrays["document_ids"],
        strict=True,
    ):
        real = owners > 0
        assert set(owners.tolist()) <= {0, 1}
        one, two = tokens[real & (parts == 0)], tokens[real & (parts == 1)]
        assert (one[0], one[-1], two[-1]) == (CLS, SEP, SEP)
        assert not parts[~real].any()
        assert (tokens[~real] == PAD).all()
        yield one[1:-1].tolist(), two[:-1].tolist()


def documents(count: int, seed: int = 0) -> list[str]:
    """Documents of lines; each word says which document and which line it is of."""
    random = np.random.default_rng(seed)
    return [
        "\n".join(
            " ".join(
                f"w{row} {WORDS.pieces[45 + line]}".split() * random.integers(1, 4)
            )
            for line in range(random.integers(2, 12))
        )
        for row in range(count)
    ]


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order"])
def test_labels_are_true(task: str) -> None:
    texts = documents(200)
    records = make(texts, task=task)
    labels = records.arrays[f"{task}_label"]
    assert labels.dtype == np.int32
    ids = [WORDS.ids(text) for text in texts]
    place = records.placement
    assert place.record.tolist() == np.repeat(np.arange(len(records)), 2).tolist()
    for record, (one, two) in enumerate(segments(records)):
        (first, second), (at, then) = (
            place.document[2 * record : 2 * record + 2],
            place.offset[2 * record : 2 * record + 2],
        )
        assert ids[first][at : at + len(one)] == one
        assert ids[second][then : then + len(two)] == two
        if task == "sentence_order" and labels[record]:
            assert (first, at) == (second, then + len(two))
        elif labels[record]:
            assert first != second
        else:
            assert (second, then) == (first, at + len(one))
    # Five standard deviations of a fair coin.
    assert abs(labels.mean() - 0.5) < 5 * 0.5 / len(labels) ** 0.5


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order"])
def test_each_sentence_is_used_once(task: str) -> None:
    texts = documents(150)
    records = make(texts, task=task)
    place = records.placement
    used: Counter[tuple[int, int]] = Counter()
    labels = records.arrays[f"{task}_label"]
    for record, (one, two) in enumerate(segments(records)):
        for side, tokens in enumerate((one, two)):
            if task == "next_sentence" and side and labels[record]:
                continue  # borrowed from another document
            at = place.offset[2 * record + side]
            document = place.document[2 * record + side]
            used.update((document, at + i) for i in range(len(tokens)))
    assert set(used.values()) == {1}
    total = sum(len(WORDS.ids(text)) for text in texts)
    assert len(used) + records.counts["truncated_tokens"] == total
    if task == "sentence_order":
        # At most the last sentence of a document stays alone, and few do.
        assert records.counts["truncated_tokens"] < 0.2 * total


def test_another_document_is_never_the_same_one() -> None:
    records = make(["\n".join("abcdefgh" * 8), "\n".join("ijklmnop" * 8)], 8)
    first, second = records.placement.document.reshape(-1, 2).T
    labels = records.arrays["next_sentence_label"]
    assert 10 < labels.sum() < len(labels) - 10
    np.testing.assert_array_equal(first != second, labels == 1)


def test_the_only_document_has_no_stranger() -> None:
    records = make(["\n".join("abcdefgh")], 8)
    assert not records.arrays["next_sentence_label"].any()


def test_masks_are_content_of_both_segments() -> None:
    records = make(documents(200))
    tokens = records.arrays["token_ids"]
    real = unmasked(records)
    content = real > MASK
    changed = tokens != real
    assert not changed[~content].any()
    wanted = np.maximum(np.rint(content.sum(axis=1) * 0.15), 1)
    np.testing.assert_array_equal(records.arrays["masked_weights"].sum(axis=1), wanted)
    second = records.arrays["segment_ids"] == 1
    assert changed[second].any()
    assert changed[~second].any()


def test_a_share_of_the_pairs_is_short() -> None:
    lines = [f"w{i} {c}" for i, c in enumerate("abcdefghijklmnop" * 10)]
    texts = ["\n".join([f"w{row}", *lines]) for row in range(20)]
    full = make(texts, short_fraction=0.0, task="sentence_order").lengths
    some = make(texts, short_fraction=0.5, task="sentence_order").lengths
    # Two tokens to a line: 28 of the 29 that fit, but for a document's last pair.
    assert np.mean(full >= 30) > 0.9
    assert abs(np.mean(some < 30) - 0.5) < 0.15
    assert len(np.unique(some)) > 10


def test_long_lines_are_cut_not_lost() -> None:
    text = " ".join(f"w{i}" for i in range(400))
    records = make([text], 16, task="sentence_order")
    assert records.counts["truncated_tokens"] <= 6
    assert (records.lengths <= 16).all()


def test_a_single_sentence_is_filtered() -> None:
    records = make(["a b c", "d\ne", ""])
    assert records.filtered == [(0, "fewer than two sentences")]
    assert records.rejected == []
    assert records.counts["empty_documents"] == 1


def test_arrival_does_not_show() -> None:
    rows = [Document(text, "x", 0) for text in documents(60)]
    run = run_of(SentencePairsConfig(sentences="lines", whole_words=True), 32)
    assert_same_when_shuffled(sentence_pairs, run, rows, WORDS)


def test_no_documents() -> None:
    assert len(make([])) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One. ", "Two! ", "Three?"]),
        ('He said "no." Then left.', ['He said "no." ', "Then left."]),
        ("3.14 is not cut", ["3.14 is not cut"]),
        ("a line\nanother", ["a line\n", "another"]),
        ("一句。两句！", ["一句。", "两句！"]),
        ("", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(st.text(), st.sampled_from(["punctuation", "lines"]))
def test_sentences_are_the_text(text: str, rule: str) -> None:
    assert "".join(split_sentences(text, rule)) == text
