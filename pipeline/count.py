"""Third step of the job: how often each word occurs in a part's documents."""

from collections import Counter
from pathlib import Path

import numpy as np
import tensorflow as tf

from configs.run import RunConfig
from pipeline.kept import kept_documents
from pipeline.objectives.tokenized import blocks
from pipeline.states import Part, is_done, mark_done, read_state
from pipeline.tokenizers.making import WordSplitter


def count_part(
    part: Part, config: RunConfig, folder: Path, splitter: WordSplitter
) -> Counter[str]:
    """How often each word occurs in a part's training documents."""
    if is_done(folder, "words", part.name):
        return Counter(read_state(folder, "words", part.name))
    documents = kept_documents(folder, part, config).splits["train"]
    words: Counter[str] = Counter()
    for column in ("text", "second_text", "target_text"):
        if column in documents.table.column_names:
            words.update(count_words(documents.texts(column), splitter))
    mark_done(folder, "words", part.name, words)
    return words


def count_words(texts: np.ndarray, splitter: WordSplitter) -> Counter[str]:
    """How often each word occurs, as the tokenizer will cut them."""
    words: Counter[str] = Counter()
    for block in blocks(texts):
        flat = splitter.words(tf.constant(block)).flat_values
        unique, _, counts = tf.unique_with_counts(flat)
        for word, count in zip(unique.numpy(), counts.numpy().tolist(), strict=True):
            words[word.decode("utf-8")] += count
    return words
