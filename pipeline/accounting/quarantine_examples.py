"""Reads an example of each reason from the quarantine files, for messages."""

import json
from collections.abc import Mapping
from pathlib import Path

FOLDER = "quarantine"
_MOST = 3


def examples(folder: Path, counts: Mapping[str, int]) -> str:
    """Formats one entry for each of the most frequent reasons.

    Args:
        folder: The job's folder.
        counts: How often each reason occurred.

    Returns:
        Lines to append to a message; empty if the quarantine is empty.
    """
    wanted = sorted(counts, key=lambda reason: (-counts[reason], reason))[:_MOST]
    found: dict[str, str] = {}
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
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
