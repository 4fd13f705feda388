"""How often each word occurs in a corpus: what a vocabulary is learned from.

The words of each part are counted by themselves and added up in slices of all words,
so no worker holds more than a slice of a large corpus's words.
"""

import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import apache_beam as beam
import numpy as np
import tensorflow as tf

from configs.run import RunConfig
from pipeline.kept import kept_documents
from pipeline.objectives.tokenized import blocks
from pipeline.states import Part, is_done, mark_done, read_state

SLICES = 16
# Rarer words than the first two million teach a vocabulary nothing.
_WORDS_PER_SLICE = 2_000_000 // SLICES


class WordSplitter(Protocol):
    """Cuts texts into the words a vocabulary is learned from."""

    def words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """String (N,) to string (N, None)."""
        ...


def count_part(
    part: Part, config: RunConfig, folder: Path, splitter: WordSplitter
) -> dict[int, Counter[str]]:
    """How often each word occurs in a part's training documents, by slice."""
    if is_done(folder, "words", part.name):
        words = Counter(read_state(folder, "words", part.name))
    else:
        documents = kept_documents(folder, part, config).splits["train"]
        words: Counter[str] = Counter()
        for column in ("text", "second_text", "target_text"):
            if column in documents.table.column_names:
                words += count_words(documents.texts(column), splitter)
        mark_done(folder, "words", part.name, words)
    slices: dict[int, Counter[str]] = {}
    for word, count in words.items():
        number = zlib.crc32(word.encode("utf-8", "surrogatepass")) % SLICES
        slices.setdefault(number, Counter())[word] = count
    return slices


def count_words(texts: np.ndarray, splitter: WordSplitter) -> Counter[str]:
    """How often each word occurs, as the tokenizer will cut them."""
    words: Counter[str] = Counter()
    for block in blocks(texts):
        flat = splitter.words(tf.constant(block)).flat_values
        unique, _, counts = tf.unique_with_counts(flat)
        for word, count in zip(unique.numpy(), counts.numpy().tolist(), strict=True):
            words[word.decode("utf-8")] += count
    return words


class AddCounts(beam.CombineFn):
    """Adds word counts."""

    def create_accumulator(self) -> Counter[str]:
        return Counter()

    def add_input(
        self, accumulator: Counter[str], counts: Counter[str]
    ) -> Counter[str]:
        accumulator.update(counts)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Counter[str]]) -> Counter[str]:
        total: Counter[str] = Counter()
        for accumulator in accumulators:
            total.update(accumulator)
        return total

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        return accumulator


class AddSlices(AddCounts):
    """Adds the counts of one slice and lets the rarest words go if they are too many.

    All counts of a slice come together before any is dropped, so what is dropped does
    not depend on who added what.
    """

    def extract_output(self, accumulator: Counter[str]) -> Counter[str]:
        if len(accumulator) <= _WORDS_PER_SLICE:
            return accumulator
        ranked = sorted(accumulator.items(), key=lambda item: (-item[1], item[0]))
        return Counter(dict(ranked[:_WORDS_PER_SLICE]))
