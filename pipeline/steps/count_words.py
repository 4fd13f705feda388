"""The third step of the data job: counts the words of a document part.

The command `trim` counts the words of a whole corpus with the same functions, without a
data job.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import (
    CompletionConfig,
    TextToTextConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.byte_accounting import UnreadFiles
from transbeam.pipeline.accounting.reading_summary import check_reading, sum_reading
from transbeam.pipeline.documents.document import Document
from transbeam.pipeline.documents.document_batch import TEXTS, DocumentBatch
from transbeam.pipeline.documents.document_selection import select_documents
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    is_done,
    mark_done,
    read_state,
)
from transbeam.pipeline.objectives.base.text_templates import usable_texts
from transbeam.pipeline.records.token_rows import blocks
from transbeam.pipeline.sources.corpus_files import list_files
from transbeam.pipeline.sources.files.reading_report import ReadingReport, reported
from transbeam.pipeline.sources.work_units import Unit, plan_units, read_spans
from transbeam.pipeline.steps.clean_documents import MEGABYTE, cleaned
from transbeam.pipeline.tokenizers.training.train_tokenizer import WordSplitter

_BLOCK = 1_000  # documents per batch


def count_part(
    part: DocumentPart, config: RunConfig, folder: Path, splitter: WordSplitter
) -> Counter[str]:
    """Counts the words of the training documents in a document part."""
    if is_done(folder, "words", part.name):
        return Counter(read_state(folder, "words", part.name))
    documents = select_documents(folder, part, config).splits["train"]
    words: Counter[str] = Counter()
    for texts in countable_texts(documents, config):
        words.update(count_words(texts, splitter))
    mark_done(folder, "words", part.name, words)
    return words


def countable_texts(
    documents: DocumentBatch, config: RunConfig
) -> Iterator[Sequence[bytes] | np.ndarray]:
    """Yields the texts from which records will be made."""
    if isinstance(config.objective, TextToTextConfig | CompletionConfig):
        yield from usable_texts(documents, config.objective)
        return
    for column in TEXTS:
        if column in documents.table.column_names:
            yield documents.texts(column)


def count_words(
    texts: Sequence[bytes] | np.ndarray, splitter: WordSplitter
) -> Counter[str]:
    """Counts words as the tokenizer will split them."""
    words: Counter[str] = Counter()
    for block in blocks(texts):
        flat = splitter.words(tf.constant(block)).flat_values
        unique, _, counts = tf.unique_with_counts(flat)
        for word, count in zip(unique.numpy(), counts.numpy().tolist(), strict=True):
            words[word.decode("utf-8")] += count
    return words


@dataclass(frozen=True)
class CorpusWords:
    """The word counts of a corpus.

    Attributes:
        counts: The number of occurrences of each word.
        reading: The result of `sum_reading`.
    """

    counts: Counter[str]
    reading: Mapping[str, Any]


def words_of_corpus(config: RunConfig, splitter: WordSplitter) -> CorpusWords:
    """Counts the words in all texts of the corpus, for training and validation.

    The words are counted in the texts from which the data job makes records, cleaned by
    the same rules, but without deduplication. Filtered and quarantined documents are
    skipped, as in the data job.

    Args:
        config: The run's configuration: `data` selects the documents, `objective` the
            text fields of the documents.
        splitter: Splits texts into words.

    Raises:
        DataError: The corpus is missing or cannot be read, or a file is incomplete.
    """
    counts: Counter[str] = Counter()
    markers: list[dict[str, Any]] = []
    for batch in _batches(config, markers):
        for texts in _texts(batch, config):
            counts.update(count_words(texts, splitter))
    reading = sum_reading(markers)
    check_reading(config.data, reading)
    return CorpusWords(counts, reading)


def _batches(
    config: RunConfig, markers: list[dict[str, Any]]
) -> Iterator[DocumentBatch]:
    """Yields the documents of the corpus; appends the readers' reports to `markers`."""
    sources = config.data.source, config.data.validation_source
    size = int(config.data.shard_megabytes * MEGABYTE)
    kept: list[Document] = []
    for unit in plan_units(list_files(*sources), sources[0], size, sources[1]):
        for document in _documents(unit, config, markers):
            kept.append(document)
            if len(kept) == _BLOCK:
                yield DocumentBatch.from_documents(kept)
                kept.clear()
    if kept:
        yield DocumentBatch.from_documents(kept)


def _documents(
    unit: Unit, config: RunConfig, markers: list[dict[str, Any]]
) -> Iterator[Document]:
    sources = config.data.source, config.data.validation_source
    unread, report = UnreadFiles(), ReadingReport()
    for span, item in reported(read_spans(unit, *sources), report):
        outcome = cleaned(item, config)
        unread.enter(span.file, outcome)
        if isinstance(outcome, Document):
            yield outcome
    markers.append({"unread": unread.rows(), **report.as_json()})


def _texts(
    batch: DocumentBatch, config: RunConfig
) -> Iterator[Sequence[bytes] | np.ndarray]:
    yield from countable_texts(batch, config)
    # The words of tagged sentences are also tokenized separately.
    tagged = [word.encode() for row in batch.values("words") for word in row]
    if tagged:
        yield tagged
