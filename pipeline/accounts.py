"""The books of a job: every document read is used, filtered or in quarantine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from configs.errors import DataError
from configs.run import RunConfig
from pipeline.deduplication.verdicts import EXACT, NEAR, REASONS
from pipeline.states import read_states

LEFT_OUT = "left out by the weight of its source"


def counts_of(folder: Path) -> dict[str, Any]:
    """The counts of a job so far, from the markers its steps have left.

    `read` is what came in. When the job is done it equals documents + filtered +
    quarantined, summed over splits and reasons.
    """
    prepared = list(read_states(folder, "documents"))
    built = list(read_states(folder, "records"))
    dropped = list(read_states(folder, "duplicates"))
    filtered = _sum(state["filtered"] for state in prepared)
    filtered[REASONS[EXACT]] = sum(len(state["exact"]) for state in dropped)
    filtered[REASONS[NEAR]] = sum(len(state["near"]) for state in dropped)
    filtered[LEFT_OUT] = sum(state["left_out"] for state in built)
    filtered += _sum(state["filtered"] for state in built)
    quarantined = _sum(state["quarantined"] for state in prepared)
    came_in = (
        sum(sum(state["documents"].values()) for state in prepared)
        + _sum(state["filtered"] for state in prepared).total()
        + quarantined.total()
    )
    quarantined += _sum(state["quarantined"] for state in built)
    return {
        "read": came_in,
        "documents": dict(sorted(_sum(state["documents"] for state in built).items())),
        "filtered": _sorted(filtered),
        "quarantined": _sorted(quarantined),
        "characters": sum(p["size"] for state in prepared for p in state["parts"]),
        **_by_split(built),
    }


def _by_split(built: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """`tokens`, `padding`, `records`, …: for each the number in each split."""
    totals: dict[str, Counter[str]] = {}
    for state in built:
        for split, counts in state["counts"].items():
            for name, number in counts.items():
                totals.setdefault(name, Counter())[split] += number
        for shard in state["shards"]:
            totals.setdefault("records", Counter())[shard["split"]] += shard["records"]
    return {name: dict(sorted(total.items())) for name, total in sorted(totals.items())}


def check_prepared(config: RunConfig, folder: Path) -> None:
    """Stops a job early, most of whose input cannot be used.

    Raises:
        DataError: More than the configured share was quarantined, or nothing is left
            for training, or of a validation source.
    """
    check_quarantine(config, folder)
    prepared = list(read_states(folder, "documents"))
    documents = _sum(state["documents"] for state in prepared)
    if not documents["train"]:
        counts = counts_of(folder)
        raise DataError(
            f"data: no document is left for training: {counts['read']} read, "
            f"filtered {counts['filtered']}, quarantined {counts['quarantined']}, "
            f"validation {documents['validation']}. Mend the corpus or the rules of "
            "data.cleaning"
        )
    if config.data.validation_source and not documents["validation"]:
        counts = counts_of(folder)
        raise DataError(
            "data.validation_source: no document of it is left: with those of "
            f"data.source {counts['read']} read, filtered {counts['filtered']}, "
            f"quarantined {counts['quarantined']}. Mend its files or the rules of "
            "data.cleaning"
        )


def check_quarantine(config: RunConfig, folder: Path) -> None:
    """Stops a job that would quietly leave much of its input out.

    Raises:
        DataError: More than the configured share was quarantined.
    """
    counts = counts_of(folder)
    quarantined = sum(counts["quarantined"].values())
    allowed = config.data.maximum_quarantine_fraction
    if quarantined > allowed * counts["read"]:
        reasons = ", ".join(f"{n} × {r}" for r, n in counts["quarantined"].items())
        raise DataError(
            f"data: {quarantined} of {counts['read']} documents could not be used "
            f"({reasons}); data.maximum_quarantine_fraction allows {allowed:g}. "
            f"See {folder / 'quarantine'}, mend the corpus or raise the limit"
        )


def check_balance(counts: Mapping[str, Any]) -> None:
    """Makes sure that no document was lost on the way.

    Raises:
        RuntimeError: The counts do not add up: a bug.
    """
    kinds = ("documents", "filtered", "quarantined")
    accounted = sum(sum(counts[kind].values()) for kind in kinds)
    if accounted != counts["read"]:
        raise RuntimeError(f"{counts['read']} documents read, {accounted} in the books")


def _sum(rows: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row)
    return total


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in sorted(counts.items()) if count}
