"""`duplicates.parquet`: the dropped documents and their originals.

| column | |
|---|---|
| `kind` | `exact` or `near` |
| `source`, `offset`, `split` | the document that was dropped |
| `of_source`, `of_offset`, `of_split` | the document that it duplicates |

A near duplicate is listed with the kept document of its group, to which it may be
linked indirectly; an exact copy with the first document of its text, which may itself
be dropped as a near duplicate.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.pipeline.deduplication.duplicate_clusters import EXACT, NEAR
from transbeam.pipeline.documents.document import SPLITS
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.step_markers import DocumentPart, documents_path

FILE = "duplicates.parquet"


_KINDS = {"exact": EXACT, "near": NEAR}


def find_originals(
    keys: np.ndarray, verdict: np.ndarray, first: np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Returns the index of the document that each document duplicates, or its own.

    Args:
        keys: uint64 `(N,)`, the keys of all documents, as for
            `duplicate_clusters.distinct`.
        verdict: uint8 `(N,)`, from `duplicate_clusters.classify_duplicates`.
        first: `duplicate_clusters.distinct(keys, held_out)`.
        groups: int64 `(len(first),)`, the groups of near duplicates, as for
            `duplicate_clusters.classify_duplicates`.

    Returns:
        int64 `(N,)`.

    Example:
    >>> keys = np.array([7, 3, 7, 5], np.uint64)
    >>> first = np.array([1, 3, 0])  # 3, 5, 7
    >>> verdict = np.array([2, 0, 1, 0], np.uint8)
    >>> find_originals(keys, verdict, first, np.array([0, 1, 1]))
    array([3, 1, 0, 3])
    """
    by_key = first[np.argsort(keys[first])]
    original = by_key[np.searchsorted(keys[by_key], keys)]
    near = np.flatnonzero(verdict[first] == NEAR)
    original[first[near]] = first[groups[near]]
    return original


def write_duplicates(
    folder: Path,
    parts: Sequence[DocumentPart],
    held_out: np.ndarray,
    verdict: np.ndarray,
    original: np.ndarray,
) -> dict[str, dict[str, int]]:
    """Writes the table of dropped documents, in the order of the corpus.

    Args:
        folder: The job's folder.
        parts: All parts.
        held_out: bool `(N,)`, True for validation documents, in the same order as
            `keys` of `distinct`.
        verdict: uint8 `(N,)`, from `duplicate_clusters.classify_duplicates`.
        original: int64 `(N,)`, from `find_originals`.

    Returns:
        For each kind (`exact`, `near`), the number of duplicates within `train`, within
        `validation`, and `across` the two splits.
    """
    dropped = np.flatnonzero(np.isin(verdict, list(_KINDS.values())))
    where = pa.concat_tables(
        DocumentBatch.load(documents_path(folder, part)).table.select(
            ["source", "offset"]
        )
        for part in parts
    ).unify_dictionaries()
    kinds = np.array(list(_KINDS))[(verdict[dropped] == NEAR).astype(int)]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"kind": _words(kinds)}
    splits: list[np.ndarray] = []
    for prefix, rows in (("", dropped), ("of_", original[dropped])):
        found = where.take(pa.array(rows))
        splits.append(np.array(SPLITS)[held_out[rows].astype(int)])
        columns |= {f"{prefix}{name}": found[name] for name in found.column_names}
        columns[f"{prefix}split"] = _words(splits[-1])
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    write_atomically(folder / FILE, sink.getvalue())
    place = np.where(splits[0] == splits[1], splits[0], "across")
    return {
        kind: {
            name: int(np.sum((kinds == kind) & (place == name)))
            for name in (*SPLITS, "across")
        }
        for kind in _KINDS
    }


def _words(values: np.ndarray) -> pa.Array:
    return pa.array(values.astype(object), pa.string()).dictionary_encode()
