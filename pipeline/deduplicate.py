"""The job's deduplication: from signatures in files to the rows that are dropped.

The signatures of each part lie in a file beside its documents and are mapped, not
read. What is held in memory is 16 bytes a document for each band that is worked on.
"""

import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from configs.deduplication import NearDuplicates
from configs.files import write_atomically, write_json
from configs.run import RunConfig
from pipeline import duplicates
from pipeline.document_batch import DocumentBatch
from pipeline.kept import in_validation
from pipeline.minhash import signatures
from pipeline.states import (
    Part,
    all_parts,
    documents_path,
    is_done,
    mark_done,
)

# How many held-out documents have a near duplicate that training would have seen.
LEAKS = "state/leaks.json"


def bands(config: RunConfig) -> int:
    """How many bands the signatures are cut into: each can be looked at by itself."""
    return _bands(_near(config)).count


def save_signatures(
    folder: Path, part: Part, texts: Sequence[str], near: NearDuplicates
) -> None:
    """Keeps the signatures of a part's documents until duplicates are found."""
    _save(folder / f"state/signatures-{part.name}.npy", signatures(texts, near))


def find_edges(band: int, config: RunConfig, folder: Path) -> None:
    """Finds the near duplicates among all documents that meet in a band."""
    path = folder / f"state/edges-{band:03d}.npy"
    if path.is_file():
        return
    near = _near(config)
    rows = _bands(near).rows
    corpus = _Corpus(folder)
    first = duplicates.distinct(corpus.keys)
    columns = slice(band * rows, (band + 1) * rows)
    met = np.concatenate(
        [
            duplicates.buckets(signature[:, columns], duplicates.Bands(1, rows))[0]
            for signature in corpus.signatures
        ]
    )
    pairs = duplicates.similar_pairs(
        met[first], lambda places: corpus.look_up(first[places]), near.similarity
    )
    _save(path, pairs)


def drop_duplicates(config: RunConfig, folder: Path) -> None:
    """Leaves for each part the rows that are dropped, by reason."""
    wanted = config.data.deduplication
    parts = all_parts(folder)
    if not wanted.exact or all(is_done(folder, "duplicates", p.name) for p in parts):
        return
    keys, edges = _keys(folder, parts)
    first = duplicates.distinct(keys)
    groups = np.arange(len(first))
    if wanted.near:
        paths = sorted((folder / "state").glob("edges-*.npy"))
        pairs = np.concatenate([np.load(path) for path in paths])
        groups = duplicates.clusters(pairs, len(first))
        held_out = in_validation(keys[first], config.data.validation_fraction)
        leaks = duplicates.leaked(groups, ~held_out, held_out)
        write_json(folder / LEAKS, int(leaks.sum()))
    verdicts = duplicates.verdicts(keys, first, groups)
    for part, (start, end) in zip(parts, pairwise(edges), strict=True):
        rows = verdicts[start:end]
        dropped = {
            "exact": np.flatnonzero(rows == duplicates.EXACT).tolist(),
            "near": np.flatnonzero(rows == duplicates.NEAR).tolist(),
        }
        mark_done(folder, "duplicates", part.name, dropped)


class _Corpus:
    """The keys of all documents, and their signatures where they lie."""

    def __init__(self, folder: Path):
        parts = all_parts(folder)
        self.keys, edges = _keys(folder, parts)
        self.edges = np.array(edges)
        self.signatures = [
            np.load(folder / f"state/signatures-{part.name}.npy", mmap_mode="r")
            for part in parts
        ]

    def look_up(self, documents: np.ndarray) -> np.ndarray:
        """The signatures of documents by their place in the corpus."""
        owners = np.searchsorted(self.edges, documents, side="right") - 1
        found = np.empty((len(documents), self.signatures[0].shape[1]), np.uint32)
        for owner in np.unique(owners):
            here = owners == owner
            rows = documents[here] - self.edges[owner]
            found[here] = self.signatures[owner][rows]
        return found


def _keys(folder: Path, parts: Sequence[Part]) -> tuple[np.ndarray, list[int]]:
    """The keys of all documents in order, and where each part's begin and end."""
    keys = [np.zeros(0, np.uint64)]
    keys += [DocumentBatch.load(documents_path(folder, part)).keys for part in parts]
    edges = np.cumsum([len(k) for k in keys]).tolist()
    return np.concatenate(keys), edges


def _near(config: RunConfig) -> NearDuplicates:
    near = config.data.deduplication.near
    if near is None:
        raise ValueError("data.deduplication.near is not asked for")
    return near


def _bands(near: NearDuplicates) -> duplicates.Bands:
    return duplicates.choose_bands(near.similarity, near.num_hashes)


def _save(path: Path, array: np.ndarray) -> None:
    sink = io.BytesIO()
    np.save(sink, array)
    write_atomically(path, sink.getvalue())
