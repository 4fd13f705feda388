"""The deduplication step: finds duplicate documents by their stored signatures.

The signatures of each document part are in a file of their own, which is memory-mapped.
Memory usage is some tens of bytes per document for each band that is being processed.
"""

import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from transbeam.configs.base.atomic_files import write_atomically, write_json
from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.data import DataConfig, NearDuplicatesConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.deduplication import duplicate_clusters, lsh
from transbeam.pipeline.deduplication.duplicates_table import (
    find_originals,
    write_duplicates,
)
from transbeam.pipeline.deduplication.minhash import signatures
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import is_validation
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    all_parts,
    documents_path,
    is_done,
    mark_done,
)

# Counts of documents in both splits: `prevented`, dropped training documents, and
# `left`, validation documents that are also in training; and counts of dropped
# duplicates by kind, within each split and across.
LEAKS = "state/leaks.json"


def bands(config: RunConfig) -> int:
    """Returns the number of LSH bands, each of which is processed separately."""
    near = config.data.deduplication.near
    assert near is not None  # else the job has no bands
    return lsh.choose_bands(near.similarity, near.num_hashes).count


def save_signatures(
    folder: Path, part: DocumentPart, texts: Sequence[str], near: NearDuplicatesConfig
) -> None:
    """Saves the signatures of a part's documents for the search for near duplicates."""
    _save(folder / f"state/signatures-{part.name}.npy", signatures(texts, near))


def find_near_duplicate_pairs(band: int, config: RunConfig, folder: Path) -> None:
    """Finds near duplicates among documents that share an LSH bucket of one band."""
    path = folder / f"state/edges-{band:03d}.npy"
    if path.is_file():
        return
    near = config.data.deduplication.near
    assert near is not None
    rows = lsh.choose_bands(near.similarity, near.num_hashes).rows
    corpus = _Documents(folder, config.data)
    signed = [
        np.load(folder / f"state/signatures-{part.name}.npy", mmap_mode="r")
        for part in corpus.parts
    ]
    first = duplicate_clusters.distinct(corpus.keys, corpus.held_out)
    columns = slice(band * rows, (band + 1) * rows)
    met = np.concatenate(
        [
            lsh.buckets(signature[:, columns], lsh.Bands(1, rows))[0]
            for signature in signed
        ]
    )
    pairs = lsh.similar_pairs(
        met[first],
        lambda documents: corpus.look_up(first[documents], signed),
        near.similarity,
    )
    _save(path, pairs)


def drop_duplicates(config: RunConfig, folder: Path) -> None:
    """Writes a marker file per document part; it lists the dropped rows by reason.

    Raises:
        DataError: Every training document is a duplicate of a validation document.
    """
    wanted = config.data.deduplication
    if not wanted.exact:
        corpus = _Documents(folder, config.data)
        everything = np.ones(len(corpus.keys), np.bool_)
        _write_leaks(folder, left=_leaks_left(folder, corpus, everything))
        return
    if all(is_done(folder, "duplicates", part.name) for part in all_parts(folder)):
        return
    corpus = _Documents(folder, config.data)
    keys, held_out = corpus.keys, corpus.held_out
    first = duplicate_clusters.distinct(keys, held_out)
    groups = np.arange(len(first))
    if wanted.near:
        paths = sorted((folder / "state").glob("edges-*.npy"))
        pairs = np.concatenate([np.load(path) for path in paths])
        groups = duplicate_clusters.groups_by_split(pairs, held_out[first])
    verdict = duplicate_clusters.classify_duplicates(keys, first, groups)
    prevented = duplicate_clusters.mark_validation_duplicates(
        keys, held_out, first, groups
    )
    _refuse_nothing_left(prevented, held_out, config.data)
    left = _leaks_left(folder, corpus, verdict == duplicate_clusters.KEPT)
    original = find_originals(keys, verdict, first, groups)
    listed = write_duplicates(folder, corpus.parts, held_out, verdict, original)
    _write_leaks(folder, int(prevented.sum()), left, listed)
    for part, (start, end) in zip(corpus.parts, pairwise(corpus.edges), strict=True):
        rows = verdict[start:end]
        dropped = {
            "exact": np.flatnonzero(rows == duplicate_clusters.EXACT).tolist(),
            "near": np.flatnonzero(rows == duplicate_clusters.NEAR).tolist(),
        }
        mark_done(folder, "duplicates", part.name, dropped)


def _leaks_left(folder: Path, corpus: "_Documents", kept: np.ndarray) -> int:
    """Counts the validation documents whose inputs also occur in training documents.

    Such documents remain if duplicates are kept, or if labels or answers differ.
    """
    inputs = [
        DocumentBatch.load(documents_path(folder, part)).input_keys()
        for part in corpus.parts
    ]
    groups = np.unique(np.concatenate(inputs), return_inverse=True)[1]
    held_out = corpus.held_out
    return int(
        duplicate_clusters.leaked(groups, kept & ~held_out, kept & held_out).sum()
    )


def _refuse_nothing_left(
    prevented: np.ndarray, held_out: np.ndarray, data: DataConfig
) -> None:
    if np.all(prevented | held_out):
        remedy = (
            "Fix data.source or data.validation_source"
            if data.validation_source
            else "Lower data.validation_fraction, or raise "
            "data.deduplication.near.similarity"
        )
        raise DataError(
            f"data: validation has all {np.count_nonzero(prevented)} training "
            f"documents, so none is left to train on. {remedy}"
        )


def _write_leaks(
    folder: Path,
    prevented: int = 0,
    left: int = 0,
    duplicates: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    leaks = {"prevented": prevented, "left": left, "duplicates": duplicates or {}}
    write_json(folder / LEAKS, leaks)


class _Documents:
    """Keys and splits of all documents of the corpus, in the order of parts and rows.

    Attributes:
        parts: The document parts, in order.
        keys: uint64 (N,).
        held_out: bool (N,), True for validation documents.
        edges: int64 (parts + 1,), the index of each part's first document, then N.
    """

    def __init__(self, folder: Path, data: DataConfig):
        self.parts = all_parts(folder)
        keys = [DocumentBatch.load(documents_path(folder, p)).keys for p in self.parts]
        held_out = [
            is_validation(k, p, data) for k, p in zip(keys, self.parts, strict=True)
        ]
        self.keys = np.concatenate(keys)
        self.held_out = np.concatenate(held_out)
        self.edges = np.cumsum([0, *map(len, keys)])

    def look_up(
        self, documents: np.ndarray, signed: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Returns the signatures of documents by their index in the corpus.

        Args:
            documents: int64 (n,).
            signed: The signatures of each document part, one array per part.

        Returns:
            uint32 (n, num_hashes).
        """
        owners = np.searchsorted(self.edges, documents, side="right") - 1
        found = np.empty((len(documents), signed[0].shape[1]), np.uint32)
        for owner in np.unique(owners):
            here = owners == owner
            rows = documents[here] - self.edges[owner]
            found[here] = signed[owner][rows]
        return found


def _save(path: Path, array: np.ndarray) -> None:
    sink = io.BytesIO()
    np.save(sink, array)
    write_atomically(path, sink.getvalue())
