"""The figures of a run's dataset card, from the manifest and its statistics."""

from pathlib import Path
from typing import Any

from transbeam.serving.studio.run_results.checked_json import JsonFields, read_fields
from transbeam.serving.studio.run_results.result_files import existing
from transbeam.serving.studio.run_results.stage_states import (
    DATA,
    is_imported,
    read_result,
)

_SPLITS = ("train", "validation")
_MOST_BARS = 64


def read_data(folder: Path) -> dict[str, Any] | None:
    """Reads what the page shows of a run's records.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.DATA`; None if the stage is not finished.

    Raises:
        ArtifactError: A file is missing or damaged.
    """
    result = read_result(folder, DATA)
    if result is None:
        return None
    if is_imported(result):
        return {"is_imported": True}
    manifest = read_fields(folder / DATA / "manifest.json")
    statistics = read_fields(folder / DATA / "statistics.json")
    config, counts = manifest.fields("config"), manifest.fields("counts")
    return {
        "is_imported": False,
        "objective": config.text("objective.kind"),
        "source": config.text("data.source.kind"),
        "tokenizer": config.text("tokenizer.kind"),
        "vocabulary_size": manifest.fields("vocabulary").number("size"),
        "source_files": len(manifest.items("sources")),
        "source_bytes": _total(manifest.objects("sources")),
        "record_bytes": _total(manifest.objects("shards")),
        "shards": len(manifest.items("shards")),
        "leaks_prevented": manifest.number("leaks_prevented"),
        "splits": [
            _split(name, counts, manifest.numbers("padding_fraction"))
            for name in _SPLITS
            if name in counts.numbers("records")
        ],
        "documents": _document_rows(counts),
        "lengths": [
            {"split": name, **pool_counts(statistics.fields(name).counts("lengths"))}
            for name in _SPLITS
            if name in statistics
        ],
        "labels": _label_rows(result.fields("label_counts")),
        "frequent": _frequent_pieces(statistics.fields("train")),
        "features": [
            {
                "name": feature.text("name"),
                "dtype": feature.text("dtype"),
                "shape": feature.counts("shape"),
                "meaning": feature.text("meaning"),
            }
            for feature in manifest.objects("features")
        ],
        "card": existing(folder, "data/card.html"),
    }


def pool_counts(counts: list[int]) -> dict[str, Any]:
    """Adds neighboring counts, so that a chart has room for all bars.

    Args:
        counts: `counts[i]` is the number of items with the value i.

    Returns:
        `step`, the number of values per bar; `longest`, the largest value; and
        `counts` of the bars.

    Example:
    >>> pool_counts([0, 2, 1])
    {'step': 1, 'longest': 2, 'counts': [0, 2, 1]}
    >>> pool_counts([1] * 100) == {"step": 2, "longest": 99, "counts": [2] * 50}
    True
    """
    step = max(1, -(-len(counts) // _MOST_BARS))
    return {
        "step": step,
        "longest": max(0, len(counts) - 1),
        "counts": [sum(counts[at : at + step]) for at in range(0, len(counts), step)],
    }


def _total(rows: list[JsonFields]) -> float:
    return sum(row.number("bytes") or 0 for row in rows)


def _split(name: str, counts: JsonFields, padding: dict[str, float]) -> dict[str, Any]:
    of = {
        what: counts.numbers(what).get(name)
        for what in ("documents", "records", "tokens", "unknown_tokens", "predictions")
    }
    return {"name": name, **of, "padding": padding.get(name)}


def _document_rows(counts: JsonFields) -> list[dict[str, Any]]:
    """Returns the numbers of documents by their fate and its reason."""
    fates = {"used": "documents", "filtered": "filtered", "quarantined": "quarantined"}
    return [
        {"fate": fate, "reason": reason, "count": count}
        for fate, key in fates.items()
        for reason, count in counts.numbers(key).items()
    ]


def _label_rows(counts: JsonFields) -> list[dict[str, Any]]:
    by_split = {split: counts.numbers(split) for split in counts.names()}
    labels = list(dict.fromkeys(label for of in by_split.values() for label in of))
    return [
        {
            "label": label,
            "train": by_split.get("train", {}).get(label),
            "validation": by_split.get("validation", {}).get(label),
        }
        for label in labels
    ]


def _frequent_pieces(statistics: JsonFields) -> list[dict[str, Any]]:
    return [
        {"piece": piece, "count": count}
        for pair in statistics.items("most_frequent")
        if isinstance(pair, list) and len(pair) == 2
        for piece, count in [pair]
        if isinstance(piece, str) and isinstance(count, int)
    ]
