"""First half of the job: a unit of source becomes clean documents, split by their text.

Each step is a function of the unit and the configuration alone. Its result is kept in
files, the marker last, so that a job that was killed takes up where it was.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from configs.files import write_atomically, write_json
from configs.run import RunConfig
from pipeline.cleaning import (
    clean_text,
    filter_reason,
    quarantine_reason,
    rejected,
)
from pipeline.documents import (
    SPLITS,
    Document,
    Rejected,
    Split,
    document_hash,
    split_of,
)
from pipeline.examples import encode_documents
from pipeline.shard_writer import write_shard
from pipeline.sources import Unit, read_unit
from pipeline.states import state_path
from pipeline.tokenizers.wordpiece import WordPieceTokenizer

BLOCK_BYTES = 1_000_000  # text handed to TensorFlow at once


@dataclass
class Prepared:
    """What became of a unit's input: every document read is in one of the counts."""

    documents: dict[str, int] = field(default_factory=dict)
    characters: dict[str, int] = field(default_factory=dict)
    filtered: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return vars(self)


def prepare_unit(
    unit: Unit, config: RunConfig, folder: Path, splitter: WordPieceTokenizer
) -> Counter[str]:
    """Reads, cleans, splits and writes a unit's documents, and counts its words.

    Returns:
        How often each word occurs in the training documents.
    """
    marker = state_path(folder, "documents", unit.index)
    words_file = folder / f"state/words-{unit.index:05d}.json"
    if marker.is_file():
        return Counter(json.loads(words_file.read_text("utf-8")))
    kept, filtered, quarantine = _sort_documents(unit, config)
    prepared = Prepared(filtered=dict(sorted(filtered.items())))
    for split in SPLITS:
        documents = kept[split]
        write_shard(
            folder, documents_path(unit, split), split, encode_documents(documents)
        )
        prepared.documents[split] = len(documents)
        prepared.characters[split] = sum(len(document.text) for document in documents)
    reasons = Counter(entry.reason for entry in quarantine)
    prepared.quarantined = dict(sorted(reasons.items()))
    if quarantine:
        lines = [
            json.dumps(
                {
                    "reason": entry.reason,
                    "source": entry.source,
                    "offset": entry.offset,
                    "excerpt": entry.excerpt,
                }
            )
            for entry in quarantine
        ]
        (folder / "quarantine").mkdir(exist_ok=True)
        write_atomically(
            folder / f"quarantine/{unit.index:05d}.jsonl", "\n".join(lines) + "\n"
        )
    words = count_words([document.text for document in kept["train"]], splitter)
    write_json(words_file, words)
    write_json(marker, prepared.as_json())
    return words


def _sort_documents(
    unit: Unit, config: RunConfig
) -> tuple[dict[Split, list[Document]], Counter[str], list[Rejected]]:
    """Each document of the unit into exactly one of: kept, filtered, quarantined."""
    kept: dict[Split, list[Document]] = {split: [] for split in SPLITS}
    filtered: Counter[str] = Counter()
    quarantine: list[Rejected] = []
    for item in read_unit(unit, config.data.source):
        if isinstance(item, Rejected):
            quarantine.append(item)
            continue
        document = Document(clean_text(item.text), item.source, item.offset)
        if reason := quarantine_reason(document.text, config.data.cleaning):
            quarantine.append(rejected(document, reason))
        elif reason := filter_reason(document.text, config.data.cleaning):
            filtered[reason] += 1
        else:
            split = split_of(
                document_hash(document.text), config.data.validation_fraction
            )
            kept[split].append(document)
    return kept, filtered, quarantine


def count_words(texts: list[str], splitter: WordPieceTokenizer) -> Counter[str]:
    """How often each word occurs, as the tokenizer will cut them."""
    words: Counter[str] = Counter()
    for block in _blocks(texts):
        flat = splitter.words(tf.constant(block)).flat_values
        unique, _, counts = tf.unique_with_counts(flat)
        for word, count in zip(unique.numpy(), counts.numpy().tolist(), strict=True):
            words[word.decode("utf-8")] += count
    return words


def _blocks(texts: list[str]) -> list[list[str]]:
    """Runs of texts of about `BLOCK_BYTES` characters each."""
    if not texts:
        return []
    ends = np.cumsum([len(text) for text in texts])
    cuts = np.searchsorted(ends, np.arange(BLOCK_BYTES, ends[-1], BLOCK_BYTES)) + 1
    edges = [0, *dict.fromkeys(cuts.tolist()), len(texts)]
    return [texts[a:b] for a, b in pairwise(edges) if a < b]


def documents_path(unit: Unit, split: str) -> str:
    """Where a unit's documents of a split lie, below the job's folder."""
    return f"documents/{split}-{unit.index:05d}.tfrecord"
