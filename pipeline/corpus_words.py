"""The words of a whole corpus, counted in one process and without records."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from configs.run import RunConfig
from pipeline.corpus import list_files
from pipeline.count import count_words, texts_of
from pipeline.document_batch import DocumentBatch
from pipeline.documents import Document
from pipeline.prepare import MEGABYTE, cleaned
from pipeline.sources import plan_units, read_unit
from pipeline.tokenizers.making import WordSplitter

_BLOCK = 1_000  # documents side by side


def words_of_corpus(config: RunConfig, splitter: WordSplitter) -> Counter[str]:
    """How often each word occurs in all texts of `data`, of both splits.

    Texts are those that the data job would make records of, cleaned by the same rules;
    of documents that are there several times, each counts. Those that it leaves out or
    puts into quarantine are passed over here, too.

    Args:
        config: The run: `data` says which texts, `objective` which of their fields.
        splitter: Cuts texts into words.

    Raises:
        DataError: The corpus is not there or cannot be read.
    """
    words: Counter[str] = Counter()
    for batch in _batches(config):
        for texts in _texts(batch, config):
            words.update(count_words(texts, splitter))
    return words


def _batches(config: RunConfig) -> Iterator[DocumentBatch]:
    sources = config.data.source, config.data.validation_source
    size = int(config.data.shard_megabytes * MEGABYTE)
    kept: list[Document] = []
    for unit in plan_units(list_files(*sources), sources[0], size, sources[1]):
        for item in read_unit(unit, *sources):
            outcome = cleaned(item, config)
            if isinstance(outcome, Document):
                kept.append(outcome)
            if len(kept) == _BLOCK:
                yield DocumentBatch.of(kept)
                kept.clear()
    if kept:
        yield DocumentBatch.of(kept)


def _texts(
    batch: DocumentBatch, config: RunConfig
) -> Iterator[Sequence[bytes] | np.ndarray]:
    yield from texts_of(batch, config)
    # Those of a tagged sentence are also read one by one.
    tagged = [word.encode() for row in batch.values("words") for word in row]
    if tagged:
        yield tagged
