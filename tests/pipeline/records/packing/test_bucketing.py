"""Buckets: each document in the shortest record that holds it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.pipeline.objectives.language_tokenizer import WORDS, random_texts
from tests.pipeline.objectives.word_tokenizer import run_of
from transbeam.configs.base.errors import ConfigError
from transbeam.configs.schema.data import BucketedLayoutConfig
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.supervised import (
    PairClassificationConfig,
    PairRegressionConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.objectives.kinds import contract, make_records
from transbeam.pipeline.records.features import check_arrays
from transbeam.pipeline.records.packing.bucketing import bucket_runs, by_bucket


def bucketed(*lengths: int) -> RunConfig:
    run = run_of(MaskedConfig(), lengths[-1])
    return replace(
        run, data=replace(run.data, layout=BucketedLayoutConfig(lengths=lengths))
    )


def batch_of(texts: list[str]) -> DocumentBatch:
    return DocumentBatch.from_documents(
        [Document(text, "x", i) for i, text in enumerate(texts)]
    )


def test_the_shortest_that_holds_the_framed_document() -> None:
    texts = [
        "a",
        "a b c d e f",
        "a b c d e f g",
        " ".join("abcdefghijklmnopqrstuvwxyz"),
    ]
    found = {
        run.data.sequence_length: rows.tolist()
        for run, rows in by_bucket(batch_of(texts), WORDS, bucketed(8, 16))
    }
    assert found == {8: [0, 1], 16: [2, 3]}


def test_records_of_all_buckets() -> None:
    batch = batch_of(random_texts(200, 12))
    run = bucketed(8, 16, 64)
    tokens, padding = 0, 0
    seen: list[int] = []
    for one, rows in by_bucket(batch, WORDS, run):
        records = make_records(batch.take(rows), WORDS, one, "train")
        check_arrays(records.arrays, contract(one))
        assert (np.bincount(records.placement.record) == 1).all()
        seen += rows[np.unique(records.placement.document)].tolist()
        tokens += records.counts["tokens"]
        padding += records.counts["padding"]
    assert sorted(seen) == list(range(200))
    alone = make_records(batch, WORDS, bucketed(64), "train")
    assert tokens == alone.counts["tokens"]
    assert padding < alone.counts["padding"] / 2


def labelled(kind: str, random: np.random.Generator) -> list[Document]:
    """Sentences with a tag for each word, or pairs; some texts are empty."""
    documents = []
    for number, text in enumerate(random_texts(60, 12)):
        words = tuple(text.split())
        if kind == "token_classification":
            tags = tuple(random.choice(["O", "B"], len(words)).tolist())
            documents.append(Document(text, "x", number, words=words, tags=tags))
            continue
        second = " ".join(words[: int(random.integers(len(words) + 1))])
        documents.append(Document(text, "x", number, second_text=second, label="1"))
    return documents


@pytest.mark.parametrize(
    "objective",
    [
        TokenClassificationConfig(labels=("O", "B")),
        PairClassificationConfig(labels=("0", "1")),
        PairRegressionConfig(),
    ],
    ids=lambda objective: objective.kind,
)
def test_examples_are_the_same_in_shorter_records(objective) -> None:
    run = run_of(objective, 512)

    def in_buckets(*lengths: int) -> RunConfig:
        layout = BucketedLayoutConfig(lengths=lengths)
        return replace(run, data=replace(run.data, layout=layout))

    documents = labelled(objective.kind, np.random.default_rng(1))
    batch = DocumentBatch.from_documents(documents)
    whole = make_records(batch, WORDS, in_buckets(512), "train")
    place = {d: n for n, d in enumerate(whole.placement.document.tolist())}
    seen = []
    for one, rows in by_bucket(batch, WORDS, in_buckets(32, 64, 512)):
        length = one.data.sequence_length
        records = make_records(batch.take(rows), WORDS, one, "train")
        check_arrays(records.arrays, contract(one))
        for number, document in enumerate(rows[records.placement.document].tolist()):
            seen.append(document)
            for name, array in records.arrays.items():
                long = whole.arrays[name][place[document]]
                if long.ndim:  # a number for each token; the others are padding
                    real = whole.arrays["document_ids"][place[document]] > 0
                    assert not real[length:].any()
                    long = long[:length]
                np.testing.assert_array_equal(array[number], long)
        shorter = {32: 0, 64: 32, 512: 64}[length]
        assert (records.lengths > shorter).all()
    assert sorted(seen) == sorted(place)


def test_a_packed_run_is_its_own_bucket() -> None:
    run = run_of(MaskedConfig(), 16)
    assert bucket_runs(run) == [run]
    ((only, rows),) = by_bucket(batch_of(["a", "b"]), WORDS, run)
    assert (only, rows.tolist()) == (run, [0, 1])


def test_lengths_that_make_no_sense() -> None:
    for lengths in ((), (16, 8), (8, 8), (2, 8)):
        with pytest.raises(ConfigError, match="expected ascending numbers"):
            BucketedLayoutConfig(lengths=lengths)
    run = run_of(MaskedConfig(), 16)
    with pytest.raises(ConfigError, match="sequence_length=16 is not the last of"):
        replace(run.data, layout=BucketedLayoutConfig(lengths=(8, 12)))
