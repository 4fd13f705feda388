"""The list of duplicates names the document that was dropped and the one it repeats."""

import numpy as np
import pyarrow.parquet as pq

from transbeam.pipeline.deduplication.duplicate_clusters import (
    classify_duplicates,
    distinct,
)
from transbeam.pipeline.deduplication.duplicates_table import (
    FILE,
    find_originals,
    write_duplicates,
)
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.step_markers import DocumentPart, documents_path


def listed(tmp_path, parts: list[list[Document]], held_out, linked):
    """Writes and reads the list; `linked` are pairs of texts that are near."""
    (tmp_path / "documents").mkdir()
    batches = [DocumentBatch.from_documents(documents) for documents in parts]
    names = [DocumentPart(number, 0, 1) for number in range(len(parts))]
    for name, batch in zip(names, batches, strict=True):
        batch.save(documents_path(tmp_path, name))
    texts = [document.text for documents in parts for document in documents]
    keys = np.concatenate([batch.keys for batch in batches])
    held_out = np.array(held_out)
    first = distinct(keys, held_out)
    groups = np.arange(len(first))
    place = {texts[row]: number for number, row in enumerate(first)}
    for one, other in linked:
        ends = sorted([place[one], place[other]])
        groups[ends[1]] = ends[0]
    verdict = classify_duplicates(keys, first, groups)
    original = find_originals(keys, verdict, first, groups)
    counts = write_duplicates(tmp_path, names, held_out, verdict, original)
    return pq.read_table(tmp_path / FILE).to_pylist(), counts


def test_which_for_which_within_the_splits_and_across(tmp_path):
    parts = [
        [
            Document("a", "x.txt", 0),
            Document("b", "x.txt", 5),
            Document("a", "x.txt", 9),
        ],
        [Document("b", "y.txt", 2), Document("a'", "y.txt", 4)],
    ]
    held_out = [False, False, False, True, True]
    rows, counts = listed(tmp_path, parts, held_out, [("a", "a'")])
    assert rows == [
        row("near", ("x.txt", 0, "train"), ("y.txt", 4, "validation")),
        row("exact", ("x.txt", 5, "train"), ("y.txt", 2, "validation")),
        row("exact", ("x.txt", 9, "train"), ("x.txt", 0, "train")),
    ]
    assert counts == {
        "exact": {"train": 1, "validation": 0, "across": 1},
        "near": {"train": 0, "validation": 0, "across": 1},
    }


def test_no_duplicates(tmp_path):
    rows, counts = listed(tmp_path, [[Document("a", "x.txt", 0)]], [False], [])
    assert rows == []
    assert counts["exact"] == {"train": 0, "validation": 0, "across": 0}


def row(kind, dropped, of):
    names = ("source", "offset", "split")
    return {
        "kind": kind,
        **dict(zip(names, dropped, strict=True)),
        **{f"of_{name}": value for name, value in zip(names, of, strict=True)},
    }
