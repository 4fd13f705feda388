"""The third step of the data job: counts the words of a part's documents."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from transbeam.configs.schema.objectives.supervised import TextToTextConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.documents.document_batch import DocumentBatch
from transbeam.pipeline.documents.document_selection import kept_documents
from transbeam.pipeline.documents.step_markers import (
    DocumentPart,
    is_done,
    mark_done,
    read_state,
)
from transbeam.pipeline.objectives.text_to_text import usable_texts
from transbeam.pipeline.records.token_rows import blocks
from transbeam.pipeline.tokenizers.training.train_tokenizer import WordSplitter


def count_part(
    part: DocumentPart, config: RunConfig, folder: Path, splitter: WordSplitter
) -> Counter[str]:
    """Counts the words of a part's training documents."""
    if is_done(folder, "words", part.name):
        return Counter(read_state(folder, "words", part.name))
    documents = kept_documents(folder, part, config).splits["train"]
    words: Counter[str] = Counter()
    for texts in countable_texts(documents, config):
        words.update(count_words(texts, splitter))
    mark_done(folder, "words", part.name, words)
    return words


def countable_texts(
    documents: DocumentBatch, config: RunConfig
) -> Iterator[Sequence[bytes] | np.ndarray]:
    """Yields the texts of which records will be made."""
    if isinstance(config.objective, TextToTextConfig):
        yield from usable_texts(documents, config.objective)
        return
    for column in ("text", "second_text", "target_text"):
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
