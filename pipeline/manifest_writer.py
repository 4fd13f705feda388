"""Writes the results of a finished job: manifest, statistics, card and summary."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_atomically, write_json
from transbeam.configs.base.errors import DataError
from transbeam.configs.base.version import VERSION
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.document_accounting import (
    QUARANTINE_FOLDER,
    check_balance,
    check_quarantine,
    cut_off,
    describe_documents,
    examples,
    stripped_marks,
    sum_document_counts,
)
from transbeam.pipeline.accounting.reading_summary import not_read, sum_reading
from transbeam.pipeline.dataset_card import write_card
from transbeam.pipeline.documents.document import SourceFile
from transbeam.pipeline.documents.step_markers import read_states
from transbeam.pipeline.objectives.kinds import contract
from transbeam.pipeline.records.manifest import FILE, FORMAT
from transbeam.pipeline.records.packing.bucketing import bucket_runs
from transbeam.pipeline.records.record_statistics import (
    Statistics,
    label_counts,
    statistics_path,
    summary,
)
from transbeam.pipeline.steps.deduplicate_documents import LEAKS
from transbeam.pipeline.tokenizers.files.tokenizer_folder import read_tokenizer

MEGABYTE = 1_000_000


def write_results(
    folder: Path,
    config: RunConfig,
    inputs: dict[str, Any],
    files: Sequence[SourceFile],
) -> dict[str, Any]:
    """Sums the results of all document parts; writes them, the manifest last.

    Args:
        folder: The job's folder, with the markers of all document parts.
        config: The run's configuration.
        inputs: The configuration keys that the records depend on.
        files: The files of the corpus.

    Returns:
        The result of the data stage.

    Raises:
        DataError: A file is incomplete, too many documents or bytes could not be used,
            or no record was made for training or of the validation source.
    """
    check_quarantine(config, folder)
    counts = sum_document_counts(folder)
    check_balance(counts)
    records = counts.get("records", {})
    if not records.get("train"):
        raise DataError(
            f"data: no record was made for training: {describe_documents(counts)}. "
            "Fix the corpus, or the rules of data.cleaning and of the objective"
            f"{examples(folder, counts['quarantined'])}"
        )
    if config.data.validation_source and not records.get("validation"):
        raise DataError(
            "data.validation_source: no record was made of it. With those of "
            f"data.source: {describe_documents(counts)}. Fix its files, "
            "or the rules of the objective"
        )
    reading = sum_reading(read_states(folder, "documents"))
    leaks = json.loads((folder / LEAKS).read_text())
    states = list(read_states(folder, "records"))
    shards = [shard for state in states for shard in state["shards"]]
    shards.sort(key=lambda shard: shard["path"])
    digest = hashlib.sha256("\n".join(s["sha256"] for s in shards).encode()).hexdigest()
    tokenizer = read_tokenizer(folder / "tokenizer")
    manifest = {
        "format": FORMAT,
        "code_version": VERSION,
        "config": inputs,
        "config_sha256": hashlib.sha256(
            json.dumps(inputs, sort_keys=True).encode()
        ).hexdigest(),
        "records_sha256": digest,
        "features": _features(config),
        "buckets": _buckets(config),
        "vocabulary": {
            "size": len(tokenizer.vocabulary),
            "fingerprint": tokenizer.fingerprint,
        },
        "counts": counts,
        "leaks_prevented": leaks["prevented"],
        "leaks_left": leaks["left"],
        "duplicates": leaks["duplicates"],
        "padding_fraction": padding_shares(counts),
        "shards": shards,
        "unread": reading["unread"],
        "truncated": cut_off(counts),
        "noted": reading["noted"],
        "stripped_marks": stripped_marks(folder),
        "encodings": reading["encodings"],
        "sources": [
            {"name": file.name, "bytes": file.size, "part": file.part} for file in files
        ],
    }
    statistics = _statistics(folder, shards, tokenizer.vocabulary)
    # On one line: indented, every count of a piece would have a line of its own.
    write_atomically(folder / "statistics.json", json.dumps(statistics) + "\n")
    write_card(folder, config.name, manifest, statistics)
    write_json(folder / FILE, manifest)
    return {
        "manifest": str(folder / FILE),
        "records_sha256": digest,
        "vocabulary_fingerprint": tokenizer.fingerprint,
        "source_bytes": sum(file.size for file in files),
        "unread": manifest["unread"],
        "truncated": manifest["truncated"],
        "noted": manifest["noted"],
        "stripped_marks": manifest["stripped_marks"],
        "padding_fraction": manifest["padding_fraction"],
        "leaks_prevented": leaks["prevented"],
        "leaks_left": leaks["left"],
        "label_counts": label_counts(config, statistics),
        "shards": len(shards),
        "counts": counts,
    }


def _buckets(config: RunConfig) -> list[dict[str, Any]]:
    """Returns the features of each length bucket; empty for records of one length."""
    runs = bucket_runs(config)
    return [
        {"sequence_length": run.data.sequence_length, "features": _features(run)}
        for run in (runs if len(runs) > 1 else [])
    ]


def _features(config: RunConfig) -> list[dict[str, Any]]:
    return [feature.as_json() for feature in contract(config)]


def _statistics(
    folder: Path, shards: Sequence[dict[str, Any]], pieces: Sequence[str]
) -> dict[str, Any]:
    """Sums the statistics of each split over its shards."""
    totals: dict[str, Statistics] = {}
    for shard in shards:
        name = Path(shard["path"]).name.split(".")[0]
        statistics = Statistics.load(statistics_path(folder, name))
        split = shard["split"]
        totals[split] = totals[split] + statistics if split in totals else statistics
    return {split: summary(total, pieces) for split, total in totals.items()}


def padding_shares(counts: dict[str, Any]) -> dict[str, float]:
    """Computes the share of padding among all token positions, by split."""
    return {
        split: round(padding / counts["cells"][split], 5)
        for split, padding in counts.get("padding", {}).items()
        if counts["cells"][split]
    }


def describe(result: dict[str, Any]) -> str:
    """Describes the records in one line."""
    counts = result["counts"]
    tokens = sum(counts.get("tokens", {}).values())
    dropped = sum(counts["filtered"].values())
    quarantined = sum(counts["quarantined"].values())
    where = f", see {Path(result['manifest']).parent / QUARANTINE_FOLDER}"
    kept_out = result["leaks_prevented"]
    leaks = f"; {kept_out:,} documents kept out of training as validation has them"
    cut = result["truncated"]
    whole = tokens + cut["tokens"]
    documents = f"{cut['documents']:,} document{'s' * (cut['documents'] != 1)} cut, "
    shortened = f"; {documents if cut['documents'] else ''}"
    shortened += f"{cut['tokens']:,} of {whole:,} tokens left out"
    return (
        f"{counts['records'].get('train', 0):,} training and "
        f"{counts['records'].get('validation', 0):,} validation records of "
        f"{tokens:,} tokens from {counts['read']:,} documents "
        f"({counts['characters'] / MEGABYTE:.1f} MB of text; {dropped:,} filtered, "
        f"{quarantined:,} quarantined{where if quarantined else ''}); "
        f"{result['padding_fraction'].get('train', 0):.1%} padding"
        + (shortened if cut["tokens"] else "")
        + (leaks if kept_out else "")
        + not_read(result)
    )
