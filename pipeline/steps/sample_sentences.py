"""Samples sentences as negatives for the `next_sentence` task.

If a work unit has only one document of a split, it has no other document for a negative
second segment. Therefore a sample of passages is drawn from the whole split, after
deduplication; the documents are drawn by hashes of their keys. The sample depends only
on the corpus and the configuration, and the size of the sample does not grow with the
corpus.
"""

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.objectives.language_modeling import SentencePairsConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document import SPLITS, Document, Split, document_hash
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import select_rows
from transbeam.pipeline.documents.randomness import mix, stage_key, uniform
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    all_parts,
    documents_path,
)
from transbeam.pipeline.objectives.base.sentence_pair_sampling import ENOUGH
from transbeam.pipeline.objectives.base.sentences import (
    has_two_sentences,
    sample_excerpt,
)

# The size of a sample in characters.
_SAMPLE_CHARACTERS = 16_000_000
# The size of a part's selection, as a share of the part's text.
_UNIT_SHARE = 0.5
# An upper estimate of the mean; a passage is long enough for a whole record.
_CHARACTERS_PER_TOKEN = 6
# Documents drawn per document with two sentences.
_TRIES = 8

_Position = tuple[DocumentPart, int]  # a part and a row


def needs_negatives(run: RunConfig) -> bool:
    """Returns whether a run's records pair segments of different documents."""
    objective = run.objective
    return (
        isinstance(objective, SentencePairsConfig) and objective.task == "next_sentence"
    )


def sample_sentences(run: RunConfig, folder: Path) -> None:
    """Draws and saves the sample of passages of each split.

    Raises:
        DataError: Only one distinct training document has two or more sentences, or
            fewer than two documents of both splits together have two or more sentences.
    """
    chosen: dict[Split, DocumentBatch] = {
        split: _sample(run, folder, split) for split in SPLITS
    }
    number = {split: len(np.unique(sample.keys)) for split, sample in chosen.items()}
    # A test set has no training documents.
    if number["train"] == 1 or sum(number.values()) < 2:
        raise DataError(
            "data: objective.kind=sentence_pairs with task=next_sentence takes half of "
            "its second segments from other documents, and there are "
            f"{number['train']} training and {number['validation']} validation "
            "documents of two sentences or more. Add documents, or say where one ends "
            "(data.source.document)"
        )
    if number["validation"] == 1 and number["train"]:
        # Validation has no other document; training never uses validation documents.
        both = [chosen["validation"], chosen["train"]]
        chosen["validation"] = DocumentBatch.of_batches(both)
    for split, sample in chosen.items():
        sample.save(_path(folder, split))


def load_negatives(
    run: RunConfig, folder: Path, name: str, split: Split, batch: DocumentBatch
) -> DocumentBatch | None:
    """Selects passages of the sample as negatives for a document part.

    Args:
        run: The run's configuration.
        folder: The job's folder.
        name: The part's name: each part has its own selection, so that no sentence is a
            negative in all parts.
        split: The split of the batch.
        batch: The part's documents.

    Returns:
        Passages, with the hashes of their documents as keys; None if the part needs no
        passages of other documents.
    """
    if not needs_negatives(run) or not len(batch) or _has_enough(batch, run):
        return None
    sample = DocumentBatch.load(_path(folder, split))
    wanted = batch.sizes().sum() * _UNIT_SHARE / _stretch_characters(run)
    count = min(max(int(wanted), 4 * ENOUGH), len(sample))
    key = np.uint64(stage_key(run.seed, f"strangers/{name}"))
    positions = np.arange(len(sample), dtype=np.uint64)
    order = np.argsort(mix(mix(positions ^ key)), kind="stable")
    return sample.take(np.sort(order[:count]))


def _has_enough(batch: DocumentBatch, run: RunConfig) -> bool:
    """Returns whether a part has enough distinct documents for negatives."""
    assert isinstance(run.objective, SentencePairsConfig)
    found: set[bytes] = set()
    for text in batch.texts():
        if has_two_sentences(text.decode("utf-8"), run.objective.sentences):
            found.add(text)
            if len(found) > ENOUGH:
                return True
    return False


def _path(folder: Path, split: Split) -> Path:
    return folder / f"state/elsewhere-{split}.arrow"


def _stretch_characters(run: RunConfig) -> int:
    return _CHARACTERS_PER_TOKEN * run.data.sequence_length


def _sample(run: RunConfig, folder: Path, split: Split) -> DocumentBatch:
    """Samples passages from documents of a split; the documents are drawn by key."""
    assert isinstance(run.objective, SentencePairsConfig)
    rule = run.objective.sentences
    most = _SAMPLE_CHARACTERS // _stretch_characters(run)
    positions = list(_positions_of_two_sentences(run, folder, split, most))
    key = stage_key(run.seed, "elsewhere/place")
    found: dict[tuple[int, str], Document] = {}
    # Read again, because all documents together may not fit into memory.
    for document in _documents(folder, positions):
        identity = document_hash(document.text)
        times = np.arange(-(-most // len(positions)))
        shares = uniform(key, np.full(len(times), identity, np.uint64), times)
        for share in shares.tolist():
            text = sample_excerpt(document.text, rule, share, _stretch_characters(run))
            found.setdefault((identity, text), document.with_text(text))
    batch = DocumentBatch.from_documents(list(found.values()))
    return DocumentBatch(np.array([i for i, _ in found], np.uint64), batch.table)


def _positions_of_two_sentences(
    run: RunConfig, folder: Path, split: Split, most: int
) -> Iterator[_Position]:
    """Yields part and row of the first drawn documents with at least two sentences."""
    assert isinstance(run.objective, SentencePairsConfig)
    drawn = _drawn(run, folder, split, most * _TRIES)
    found = 0
    for place, document in zip(drawn, _documents(folder, drawn), strict=True):
        if has_two_sentences(document.text, run.objective.sentences):
            yield place
            found += 1
            if found == most:
                return


def _drawn(run: RunConfig, folder: Path, split: Split, most: int) -> list[_Position]:
    """Draws documents of a split by their keys; returns their parts and rows."""
    key = stage_key(run.seed, "elsewhere")
    least: list[tuple[float, DocumentPart, int]] = []
    for part in all_parts(folder):
        batch = DocumentBatch.load(documents_path(folder, part))
        rows = select_rows(batch.keys, folder, part, run)[split]
        drawn = uniform(key, batch.keys[rows], np.zeros(1, np.int64))
        here = zip(drawn.tolist(), [part] * len(rows), rows.tolist(), strict=True)
        least = heapq.nsmallest(most, [*least, *here])
    return [(part, row) for _, part, row in least]


def _documents(folder: Path, positions: Iterable[_Position]) -> Iterator[Document]:
    """Yields documents by part and row; files are memory-mapped."""
    batches: dict[str, DocumentBatch] = {}
    for part, row in positions:
        if part.name not in batches:
            path = documents_path(folder, part)
            batches[part.name] = DocumentBatch.load(path)
        values = batches[part.name].table.slice(row, 1)
        yield Document(
            values["text"][0].as_py().decode("utf-8"),
            values["source"][0].as_py(),
            values["offset"][0].as_py(),
        )
