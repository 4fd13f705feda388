"""Accounting of a data job: each document is used, filtered or quarantined.

Each byte of the source is used, filtered, quarantined or unread.
"""

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import DataError
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.accounting.byte_accounting import (
    check_complete,
    named,
    unread_files,
)
from transbeam.pipeline.deduplication.duplicate_clusters import EXACT, NEAR, REASONS
from transbeam.pipeline.documents.step_markers import read_states
from transbeam.pipeline.sources.files.reading_report import (
    dropped_in_sentences,
    sum_counts,
)

LEFT_OUT = "left out by the weight of its source"


QUARANTINE_FOLDER = "quarantine"
_MOST_EXAMPLES = 3


def sum_document_counts(folder: Path) -> dict[str, Any]:
    """Sums the counts of a job from the marker files of its finished steps.

    `read` is the number of input documents. When the job is done, `read` equals
    documents + filtered + quarantined, summed over splits and reasons, and the source
    bytes equal the sum of the other entries of `bytes`.
    """
    prepared = list(read_states(folder, "documents"))
    built = list(read_states(folder, "records"))
    dropped = list(read_states(folder, "duplicates"))
    filtered = sum_counts(state["filtered"] for state in prepared)
    filtered[REASONS[EXACT]] = sum(len(state["exact"]) for state in dropped)
    filtered[REASONS[NEAR]] = sum(len(state["near"]) for state in dropped)
    filtered[LEFT_OUT] = sum(state["left_out"] for state in built)
    filtered += sum_counts(state["filtered"] for state in built)
    quarantined = sum_counts(state["quarantined"] for state in prepared)
    came_in = (
        sum(sum(state["documents"].values()) for state in prepared)
        + sum_counts(state["filtered"] for state in prepared).total()
        + quarantined.total()
    )
    quarantined += sum_counts(state["quarantined"] for state in built)
    used = sum_counts(state["documents"] for state in built)
    return {
        "read": came_in,
        "documents": dict(sorted(used.items())),
        "filtered": _sorted(filtered),
        "quarantined": _sorted(quarantined),
        "bytes": _bytes(prepared, built),
        "dropped_in_sentences": dropped_in_sentences(prepared),
        "characters": sum(p["size"] for state in prepared for p in state["parts"]),
        **_by_split(built),
    }


def _bytes(
    prepared: Iterable[Mapping[str, Any]], built: Iterable[Mapping[str, Any]]
) -> dict[str, int]:
    """Sums the source bytes that are used, filtered, quarantined or unread so far."""
    of_units = sum_counts(state["bytes"] for state in prepared)
    of_parts = sum(p["source_bytes"] for state in prepared for p in state["parts"])
    total = of_units + sum_counts(state["bytes"] for state in built)
    fates = ("used", "filtered", "quarantined", "unread")
    return {
        "source": of_units.total() + of_parts,
        **{fate: total[fate] for fate in fates},
    }


def _by_split(built: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Sums `tokens`, `padding`, `records`, … by split."""
    totals: dict[str, Counter[str]] = {}
    for state in built:
        for split, counts in state["counts"].items():
            for name, number in counts.items():
                totals.setdefault(name, Counter())[split] += number
        for shard in state["shards"]:
            totals.setdefault("records", Counter())[shard["split"]] += shard["records"]
    return {name: dict(sorted(total.items())) for name, total in sorted(totals.items())}


def check_prepared(config: RunConfig, folder: Path) -> None:
    """Stops a job early if too much of its input cannot be used.

    Raises:
        DataError: A file is incomplete, more than the configured share of the input
            cannot be used, no document is left for training, or none is left from a
            validation source.
    """
    check_quarantine(config, folder)
    prepared = list(read_states(folder, "documents"))
    documents = sum_counts(state["documents"] for state in prepared)
    if not documents["train"]:
        counts = sum_document_counts(folder)
        raise DataError(
            f"data: no document is left for training: {describe_documents(counts)}, "
            f"{documents['validation']} for validation. Fix the corpus or the rules "
            f"of data.cleaning{examples(folder, counts['quarantined'])}"
        )
    if config.data.validation_source and not documents["validation"]:
        raise DataError(
            "data.validation_source: no document of it is left. With those of "
            f"data.source: {describe_documents(sum_document_counts(folder))}. Repair "
            "its files or the rules of data.cleaning"
        )


def describe_documents(counts: Mapping[str, Any]) -> str:
    """Describes the numbers of documents that were read, filtered and quarantined.

    Example:
    >>> describe_documents({"read": 9, "filtered": {"empty": 2}, "quarantined": {}})
    '9 documents read, 2 filtered (2 × empty), 0 quarantined'
    """
    parts = [f"{counts['read']:,} documents read"]
    for fate in ("filtered", "quarantined"):
        reasons = list_reasons(counts[fate])
        number = sum(counts[fate].values())
        parts.append(f"{number:,} {fate}" + (f" ({reasons})" if reasons else ""))
    return ", ".join(parts)


def list_reasons(counts: Mapping[str, int], most: int = 10) -> str:
    """Lists reasons with their counts, at most the `most` frequent ones.

    Example:
    >>> list_reasons({"empty": 1_200, "binary": 1})
    '1,200 × empty, 1 × binary'
    >>> list_reasons({"binary": 1, "empty": 3, "torn": 2}, most=2)
    '3 × empty, 2 × torn and 1 reason more'
    """
    shown = list(counts.items())
    more = len(shown) - most
    if more > 0:
        shown = heapq.nlargest(most, shown, key=lambda item: item[1])
    text = ", ".join(f"{number:,} × {reason}" for reason, number in shown)
    return text + (f" and {more:,} reason{'s' * (more > 1)} more" if more > 0 else "")


def check_quarantine(config: RunConfig, folder: Path) -> None:
    """Stops a job if too much of its input cannot be used.

    Raises:
        DataError: A file is incomplete, or more than the configured share of the
            documents or of the bytes cannot be used.
    """
    files = unread_files(read_states(folder, "documents"))
    if not config.data.accept_incomplete_files:
        check_complete(files)
    counts = sum_document_counts(folder)
    quarantined = sum(counts["quarantined"].values())
    bytes_ = counts["bytes"]
    lost = bytes_["quarantined"] + bytes_["unread"]
    allowed = config.data.maximum_quarantine_fraction
    reasons = list_reasons(counts["quarantined"])
    share, what = max(
        _share(quarantined, counts["read"], "documents"),
        _share(lost, bytes_["source"], "bytes of source"),
    )
    if share <= allowed:
        return
    unread = f". Not read: {named(files)}" if files else ""
    raise DataError(
        f"data: {what} could not be used ({reasons}); "
        f"data.maximum_quarantine_fraction allows {allowed:g}{unread}. "
        f"See {folder / QUARANTINE_FOLDER}, fix the corpus or raise the limit"
        f"{examples(folder, counts['quarantined'])}"
    )


def _share(part: int, whole: int, of: str) -> tuple[float, str]:
    return part / max(whole, 1), f"{part:,} of {whole:,} {of}"


def stripped_marks(folder: Path) -> dict[str, Any]:
    """Counts letters that lose an essential combining mark in the tokenizer, by script.

    Returns:
        `characters`, the number of all characters; `stripped`, the number of such
        letters; and `scripts`, the number of such letters in each script.
    """
    total = sum_counts(state["stripped"] for state in read_states(folder, "records"))
    characters = total.pop("", 0)
    scripts = dict(sorted(total.items(), key=lambda row: -row[1]))
    return {
        "characters": characters,
        "stripped": sum(scripts.values()),
        "scripts": scripts,
    }


def cut_off(counts: Mapping[str, Any]) -> dict[str, float]:
    """Counts the documents that were truncated to fit a record, and the tokens cut off.

    Returns:
        The truncated `documents` and `tokens`, and their shares of all documents and
        tokens.

    Example:
    >>> counts = {
    ...     "documents": {"train": 4},
    ...     "tokens": {"train": 60},
    ...     "truncated_documents": {"train": 1},
    ...     "truncated_tokens": {"train": 40},
    ... }
    >>> cut_off(counts)
    {'documents': 1, 'documents_share': 0.25, 'tokens': 40, 'tokens_share': 0.4}
    """
    documents, tokens, used, kept = (
        sum(counts.get(name, {}).values())
        for name in ("truncated_documents", "truncated_tokens", "documents", "tokens")
    )
    return {
        "documents": documents,
        "documents_share": round(documents / max(used, 1), 5),
        "tokens": tokens,
        "tokens_share": round(tokens / max(kept + tokens, 1), 5),
    }


def check_balance(counts: Mapping[str, Any]) -> None:
    """Checks that all documents and bytes are accounted for.

    Raises:
        RuntimeError: The counts do not add up, which indicates a bug.
    """
    kinds = ("documents", "filtered", "quarantined")
    accounted = sum(sum(counts[kind].values()) for kind in kinds)
    if accounted != counts["read"]:
        raise RuntimeError(f"{counts['read']} documents read, {accounted} in the books")
    source, *fates = counts["bytes"].values()
    if sum(fates) != source:
        raise RuntimeError(f"{source} bytes of source, {sum(fates)} in the books")


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(counts.items()) if count}


def examples(folder: Path, counts: Mapping[str, int]) -> str:
    """Formats one quarantined document for each of the most frequent reasons.

    Args:
        folder: The job's folder.
        counts: How often each reason occurred.

    Returns:
        Lines to append to a message; empty if the quarantine is empty.
    """
    wanted = sorted(counts, key=lambda reason: (-counts[reason], reason))[
        :_MOST_EXAMPLES
    ]
    found: dict[str, str] = {}
    for path in sorted((folder / QUARANTINE_FOLDER).glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if len(found) == len(wanted):
                    break
                row = json.loads(line)
                if row["reason"] in wanted and row["reason"] not in found:
                    place = f"{row['source']}, offset {row['offset']}"
                    shown = _printable(" ".join(row["excerpt"].split()))
                    found[row["reason"]] = f"{place}: {row['reason']}: {shown}"
    return "".join(f"\n  {found[reason]}" for reason in wanted if reason in found)


def _printable(text: str) -> str:
    # Binary data may contain control sequences for the terminal.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
