"""The lines of a training's `metrics.jsonl`; see `TrainingLog`, which writes them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METRICS = "metrics.jsonl"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Reads the lines of a training's log, except one that a crash truncated."""
    path = folder / METRICS
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def time_and_tokens(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Time and real tokens of a training's steps.

    Pauses between attempts are excluded, and so are steps that were lost in a crash and
    repeated.

    Args:
        rows: The lines of `metrics.jsonl`.

    Returns:
        `seconds`, `tokens` and `tokens_per_second`.

    Example:
    >>> time_and_tokens([{"step": 10, "seconds": 2.0, "tokens": 4096, "loss": 5.1}])
    {'seconds': 2.0, 'tokens': 4096, 'tokens_per_second': 2048}
    """
    last = rows[-1] if rows else {}
    seconds, tokens = last.get("seconds", 0.0), last.get("tokens", 0)
    rate = round(tokens / seconds) if seconds else 0
    return {"seconds": seconds, "tokens": tokens, "tokens_per_second": rate}
