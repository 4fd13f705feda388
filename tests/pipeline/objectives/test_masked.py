"""Masking: the right share, never a special token, and only ever from content."""

from dataclasses import replace

import numpy as np
import pytest

from tests.pipeline.objectives.language_tokenizer import (
    WORDS,
    language_tokenizer,
    random_texts,
)
from tests.pipeline.objectives.record_checks import (
    assert_same_when_shuffled,
    records_of,
)
from tests.pipeline.objectives.word_tokenizer import run_of
from tests.pipeline.records.packing.test_sequence_packing import packed_from
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.data import BucketedLayoutConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives import masked
from transbeam.pipeline.objectives.masked import Hiding, mask_records
from transbeam.pipeline.records.features import check_arrays

MASK = 4
ORDINARY = np.arange(5, 1000, dtype=np.int32)


def hidden(documents, length=128, seed=0, copy=0, **changes):
    packed = packed_from(documents, length)
    hiding = Hiding(seed, MASK, ORDINARY, copy=copy)
    return packed, mask_records(packed, MaskedConfig(**changes), hiding)


def shown_and_real(packed, arrays) -> tuple[np.ndarray, np.ndarray]:
    row, slot = np.nonzero(arrays["masked_weights"])
    column = arrays["masked_positions"][row, slot]
    return arrays["token_ids"][row, column], packed.token_ids[row, column]


@pytest.fixture(scope="module")
def many_documents() -> list[list[int]]:
    random = np.random.default_rng(0)
    sizes = random.geometric(1 / 60, 3000)
    return [random.integers(5, 1000, size).tolist() for size in sizes]


def test_putting_the_answers_back_restores_the_records(many_documents) -> None:
    packed, arrays = hidden(many_documents)
    restored = arrays["token_ids"].copy()
    row, slot = np.nonzero(arrays["masked_weights"])
    column = arrays["masked_positions"][row, slot]
    restored[row, column] = arrays["masked_ids"][row, slot]
    np.testing.assert_array_equal(restored, packed.token_ids)


def test_asks_for_content_only_and_in_order(many_documents) -> None:
    packed, arrays = hidden(many_documents)
    row, slot = np.nonzero(arrays["masked_weights"])
    assert packed.is_content[row, arrays["masked_positions"][row, slot]].all()
    steps = np.diff(arrays["masked_positions"], axis=1)
    used = arrays["masked_weights"][:, 1:] > 0
    assert (steps[used] > 0).all()
    unused = arrays["masked_weights"] == 0
    assert not arrays["masked_positions"][unused].any()
    assert not arrays["masked_ids"][unused].any()


def test_each_record_asks_for_its_rounded_share(many_documents) -> None:
    packed, arrays = hidden(many_documents)
    content = packed.is_content.sum(axis=1)
    wanted = np.clip(np.rint(content * 0.15), 1, 20)
    np.testing.assert_array_equal(arrays["masked_weights"].sum(axis=1), wanted)


def test_eighty_ten_ten(many_documents) -> None:
    shown, real = shown_and_real(*hidden(many_documents))
    counts = [np.sum(shown == MASK), np.sum(shown == real)]
    counts.append(len(shown) - sum(counts))
    # A random piece is the real one in 1 of 995.
    shares = np.array([0.8, 0.1 + 0.1 / 995, 0.1 - 0.1 / 995])
    expected = shares * len(shown)
    # 99.99% of a chi-square with two degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 18.4
    others = shown[(shown != MASK) & (shown != real)]
    assert others.min() >= 5
    assert len(np.unique(others)) > 500


def test_every_place_is_equally_likely() -> None:
    documents = [list(range(5, 131))[: -i or None] + [500 + i] * i for i in range(40)]
    hits = np.zeros(128)
    for seed in range(100):
        _, arrays = hidden(documents, seed=seed)
        hits += np.bincount(
            arrays["masked_positions"][arrays["masked_weights"] > 0], minlength=128
        )
    expected = hits.sum() / 126
    assert hits[0] == hits[127] == 0
    chi_square = ((hits[1:127] - expected) ** 2 / expected).sum()
    assert chi_square < 125 + 6 * (2 * 125) ** 0.5


def test_seed_copy_and_document_decide(many_documents) -> None:
    _, first = hidden(many_documents, seed=1)
    _, same = hidden(many_documents, seed=1)
    np.testing.assert_array_equal(first["token_ids"], same["token_ids"])
    for other in ({"seed": 2}, {"seed": 1, "copy": 1}):
        _, found = hidden(many_documents, **other)
        alike = found["masked_positions"] == first["masked_positions"]
        assert alike[found["masked_weights"] > 0].mean() < 0.3


def test_one_word_is_asked_for() -> None:
    _, arrays = hidden([[77]], length=8)
    np.testing.assert_array_equal(arrays["masked_positions"], [[1, 0]])
    np.testing.assert_array_equal(arrays["masked_ids"], [[77, 0]])
    np.testing.assert_array_equal(arrays["masked_weights"], [[1, 0]])


def test_all_masked_when_asked() -> None:
    shares = {"masking_fraction": 0.5, "mask_fraction": 1.0, "random_fraction": 0.0}
    _, arrays = hidden([[7, 8, 9, 10]], length=8, **shares)
    assert (arrays["token_ids"] == MASK).sum() == 2


def documents_of(texts: list[str]) -> list[Document]:
    return [Document(text, "x", row) for row, text in enumerate(texts)]


def make(texts: list[str], length: int = 64, split="train", **changes):
    run = run_of(MaskedConfig(**changes), length)
    batch = DocumentBatch.from_documents(documents_of(texts))
    records = masked.make_records(batch, WORDS, run, split)
    check_arrays(records.arrays, masked.features(run))
    return records


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"whole_words": True, "ngram": 3},
        {"copies": 2},
        {"masking": "dynamic", "whole_words": True},
    ],
)
def test_records_of_documents(changes: dict) -> None:
    documents = documents_of([*random_texts(200, 20, pieces=3), "", " "])
    run = run_of(MaskedConfig(**changes), 64)
    records = records_of(masked, run, documents, WORDS)
    assert records.counts["empty_documents"] == 2
    assert records.counts["padding"] == 64 * len(records) - records.lengths.sum()
    assert_same_when_shuffled(masked, run, documents, WORDS)


def test_whole_words_are_hidden_whole() -> None:
    records = make(random_texts(300, 40, pieces=4), whole_words=True)
    arrays = records.arrays
    real = arrays["token_ids"].copy()
    row, slot = np.nonzero(arrays["masked_weights"])
    column = arrays["masked_positions"][row, slot]
    real[row, column] = arrays["masked_ids"][row, slot]
    is_asked = np.zeros(real.shape, np.bool_)
    is_asked[row, column] = True
    # A chunk may begin within a word: behind [CLS] nothing is gone on with.
    goes_on = ~WORDS.starts_word[real] & (real >= 45) & (arrays["position_ids"] > 1)
    np.testing.assert_array_equal(is_asked[goes_on], np.roll(is_asked, 1, 1)[goes_on])
    assert goes_on.sum() > 1000

    content = np.sum(real >= 45)
    # A record holds some 60 tokens: what does not fit is a piece or two.
    assert 0.145 < len(row) / content < 0.152


def test_runs_of_words_are_longer_than_words() -> None:
    def mean_run(**changes) -> float:
        arrays = make(random_texts(400, 40), 128, **changes).arrays
        used = arrays["masked_weights"] > 0
        neighbours = (np.diff(arrays["masked_positions"]) == 1) & used[:, 1:]
        return used.sum() / (used.sum() - neighbours.sum())

    assert mean_run() < 1.25
    # Runs of 1, 2 and 3 words with chances as 1, 1/2 and 1/3; neighbours may join.
    assert mean_run(ngram=3) > 18 / 11


def test_copies_of_training_records() -> None:
    texts = random_texts(100, 20)
    once, twice = make(texts), make(texts, copies=2)
    half = len(once)
    assert len(twice) == 2 * half
    for name, array in once.arrays.items():
        np.testing.assert_array_equal(twice.arrays[name][:half], array)
    same = ("document_ids", "position_ids")
    for name in same:
        np.testing.assert_array_equal(
            twice.arrays[name][:half], twice.arrays[name][half:]
        )
    masks = twice.arrays["masked_positions"]
    assert (masks[:half] != masks[half:]).mean() > 0.5
    for column in ("document", "offset"):
        first, second = np.split(getattr(twice.placement, column), 2)
        np.testing.assert_array_equal(first, second)
    assert len(make(texts, copies=2, split="validation")) == half


def test_dynamic_masking_leaves_the_tokens_alone() -> None:
    texts = ["a b+c d", "e+f+g"]
    arrays = make(texts, 16, masking="dynamic", whole_words=True).arrays
    by_document = arrays["document_ids"][0]
    assert arrays["token_ids"].shape == (1, 16)
    words = arrays["word_ids"][0]
    for owner in (1, 2):
        found = words[by_document == owner]
        found = (found - found[found > 0].min() + 1) * (found > 0)
        assert found.tolist() in ([0, 1, 2, 2, 3, 0], [0, 1, 1, 1, 0])
    assert not words[by_document == 0].any()
    assert "masked_ids" not in arrays


def test_without_a_mask_piece() -> None:
    tokenizer = language_tokenizer("a b", mask=None)
    run = run_of(MaskedConfig(), 8)
    batch = DocumentBatch.from_documents(documents_of(["a b"]))
    with pytest.raises(ConfigError, match=r"kind=masked needs a piece that hides"):
        masked.make_records(batch, tokenizer, run, "train")


def test_one_document_a_record_in_buckets() -> None:
    run = run_of(MaskedConfig(), 16)
    data = replace(run.data, layout=BucketedLayoutConfig(lengths=(16,)))
    batch = DocumentBatch.from_documents(documents_of(["a b", "c", "d e f"]))
    records = masked.make_records(batch, WORDS, replace(run, data=data), "train")
    assert sorted(records.lengths.tolist()) == [3, 4, 5]
    assert records.arrays["document_ids"].max() == 1


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match="add up to more than 1"):
        MaskedConfig(mask_fraction=0.8, random_fraction=0.3)
    with pytest.raises(ConfigError, match="copies=2 has no use with masking=dynamic"):
        MaskedConfig(masking="dynamic", copies=2)
