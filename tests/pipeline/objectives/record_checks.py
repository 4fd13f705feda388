"""Checks of the records of every supervised objective."""

from types import ModuleType
from typing import Any

import numpy as np

from tests.pipeline.objectives.word_tokenizer import LETTERS
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.records.features import Records, check_arrays


def records_of(
    module: ModuleType,
    run: RunConfig,
    documents: list[Document],
    tokenizer: Any = LETTERS,
) -> Records:
    """Records of the training split, held against the contract and the books."""
    batch = DocumentBatch.from_documents(documents)
    records = module.make_records(batch, tokenizer, run, "train")
    check_arrays(records.arrays, module.features(run))
    assert {len(array) for array in records.arrays.values()} == {len(records)}
    check_books(records, len(documents))
    return records


def check_books(records: Records, documents: int) -> None:
    """Each document is placed, left out or counted as empty, and only one of these."""
    placement = records.placement
    assert (np.diff(placement.record) >= 0).all()
    assert set(placement.record.tolist()) == set(range(len(records)))
    placed = set(placement.document.tolist())
    left_out = [row for row, _ in records.rejected + records.filtered]
    assert len(left_out) == len(set(left_out))
    assert not placed & set(left_out)
    empty = records.counts.get("empty_documents", 0)
    assert len(placed) + len(left_out) + empty == documents


def assert_same_when_shuffled(
    module: ModuleType, run: RunConfig, documents: list[Document], tokenizer: Any
) -> None:
    """The order of the documents does not show in the records."""
    records = records_of(module, run, documents, tokenizer)
    order = np.random.default_rng(0).permutation(len(documents))
    shuffled = records_of(module, run, [documents[i] for i in order], tokenizer)
    assert records.arrays.keys() == shuffled.arrays.keys()
    for name, array in records.arrays.items():
        np.testing.assert_array_equal(array, shuffled.arrays[name], name)
    assert records.counts == shuffled.counts
    # The same documents stand in the same places.
    np.testing.assert_array_equal(
        order[shuffled.placement.document], records.placement.document
    )
    assert sorted(order[row] for row, _ in shuffled.rejected) == [
        row for row, _ in records.rejected
    ]
