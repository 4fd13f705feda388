"""The last step of the data job: makes training records from a document part."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.byte_accounting import shared_out
from transbeam.pipeline.documents.document import Rejected, Split, excerpt
from transbeam.pipeline.documents.document_batch import TEXTS, DocumentBatch
from transbeam.pipeline.documents.document_selection import select_documents
from transbeam.pipeline.documents.step_markers import DocumentPart, is_done, mark_done
from transbeam.pipeline.objectives.kinds import contract, make_records
from transbeam.pipeline.records.features import Records
from transbeam.pipeline.records.packing.bucketing import by_bucket
from transbeam.pipeline.records.record_statistics import TOKEN_IDS, Statistics
from transbeam.pipeline.records.shard_writer import write_provenance, write_shard
from transbeam.pipeline.records.tf_example import encode_records
from transbeam.pipeline.steps.clean_documents import write_quarantine
from transbeam.pipeline.steps.sample_sentences import load_negatives
from transbeam.pipeline.tokenizers.analysis.vocabulary_report import count_needed_marks
from transbeam.pipeline.tokenizers.base.interface import Tokenizer


@dataclass
class Built:
    """The shards and counts of a document part, by split."""

    shards: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, int] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    left_out: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    stripped: Counter[str] = field(default_factory=Counter)
    filtered: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)


def build_part(
    part: DocumentPart, config: RunConfig, folder: Path, tokenizer: Tokenizer
) -> None:
    """Makes and writes the records of a document part, one shard per split."""
    if is_done(folder, "records", part.name):
        return
    built = Built()
    quarantine: list[Rejected] = []
    num_unused_bytes = 0
    kept = select_documents(folder, part, config)
    built.left_out = kept.left_out
    if getattr(tokenizer, "strip_accents", False):
        batches = kept.splits.values()
        texts = (batch.texts(column) for batch in batches for column in TEXTS)
        built.stripped = count_needed_marks(chain.from_iterable(texts))
    size, pad = tokenizer.vocabulary_size, tokenizer.special.pad
    for split, batch in kept.splits.items():
        refused: list[Rejected] = []
        unused: list[Rejected] = []
        counts: Counter[str] = Counter()
        for one, rows in by_bucket(batch, tokenizer, config):
            bucket = batch if len(rows) == len(batch) else batch.take(rows)
            others = load_negatives(one, folder, part.name, split, bucket)
            whole = bucket
            if others is not None:
                whole = DocumentBatch.of_batches([bucket, others])
            records = make_records(bucket, tokenizer, one, split, others)
            refused += _entries(bucket, records.rejected)
            nowhere = _without_record(records, len(bucket))
            unused += _entries(bucket, records.filtered + nowhere)
            counts.update(records.counts)
            counts["cells"] += len(records) * cells_per_record(one)
            if len(records):
                name = f"{split}-{part.name}"
                if one is not config:
                    name += f"-{one.data.sequence_length}"
                built.shards.append(_write(folder, name, split, records, one))
                write_provenance(folder, name, whole, records.placement)
                Statistics.from_records(records, size, pad).save(folder, name)
        quarantine += refused
        num_unused_bytes += sum(entry.size for entry in unused)
        built.filtered.update(entry.reason for entry in unused)
        built.documents[split] = kept.documents[split] - len(refused) - len(unused)
        built.counts[split] = dict(counts)
    built.quarantined.update(entry.reason for entry in quarantine)
    filtered = kept.dropped + num_unused_bytes
    quarantined = sum(entry.size for entry in quarantine)
    shares = shared_out(
        part.source_bytes,
        [kept.size - filtered - quarantined, filtered, quarantined],
    )
    built.bytes = dict(zip(("used", "filtered", "quarantined"), shares, strict=True))
    write_quarantine(folder, f"records-{part.name}", quarantine)
    mark_done(folder, "records", part.name, vars(built))


def _without_record(records: Records, num_documents: int) -> list[tuple[int, str]]:
    """Returns row and reason of each document without a token in any record."""
    refused = {row for row, _ in records.rejected + records.filtered}
    there = np.isin(np.arange(num_documents), records.placement.document)
    nowhere = np.flatnonzero(~there).tolist()
    return [(row, "no token") for row in nowhere if row not in refused]


def cells_per_record(config: RunConfig) -> int:
    """Counts a record's token positions, with padding, in encoder and decoder."""
    return sum(
        math.prod(feature.shape)
        for feature in contract(config)
        if feature.name in TOKEN_IDS
    )


def _write(
    folder: Path, name: str, split: Split, records: Records, config: RunConfig
) -> dict[str, Any]:
    compression = config.data.compression
    suffix = ".tfrecord.gz" if compression == "gzip" else ".tfrecord"
    shard = write_shard(
        folder,
        f"records/{name}{suffix}",
        split,
        encode_records(records.arrays, contract(config)),
        compression,
    )
    return {**shard.as_json(), "sequence_length": config.data.sequence_length}


def _entries(
    batch: DocumentBatch, reasons: Sequence[tuple[int, str]]
) -> Sequence[Rejected]:
    """Returns one entry for each distinct document that the objective does not use."""
    if not reasons:
        return []
    rows = np.array([row for row, _ in reasons])
    unused = batch.take(rows)
    entries = [
        Rejected(reason, source, offset, excerpt(text), size)
        for (_, reason), source, offset, text, size in zip(
            reasons,
            unused.values("source"),
            unused.values("offset"),
            unused.texts(),
            unused.sizes().tolist(),
            strict=True,
        )
    ]
    return list(dict.fromkeys(entries))  # copies of a document count once
