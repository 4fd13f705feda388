"""Comparison of the scores of an export and of its run, on the same records."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.pipeline.records.manifest import Manifest


def records_sha256(manifest: Manifest) -> str:
    """A fingerprint of the records of the validation split."""
    sums = sorted(shard.sha256 for shard in manifest.split("validation"))
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """Scores of a run's model, and the differences of an export's scores.

    Attributes:
        run_scores: Scores of the run's own model, by name; None for a NaN.
        differences: The export's scores minus those of the run's own model, by name.
    """

    run_scores: Mapping[str, float | None]
    differences: Mapping[str, float]

    def __str__(self) -> str:
        """Formats the differences as one line.

        Example:
        >>> print(Comparison({"macro_f1": 0.75}, {"macro_f1": -0.0125}))
        beside the run's own model on the same records: macro f1 -0.0125
        """
        listed = ", ".join(
            f"{name.replace('_', ' ')} {difference:+.4f}"
            for name, difference in self.differences.items()
        )
        return f"beside the run's own model on the same records: {listed}"


def compare(folder: Path, result: Mapping[str, Any]) -> Comparison | None:
    """Compares an export's scores with those of the run's own model.

    Args:
        folder: Folder of the evaluation of the run's own model; it need not exist.
        result: The result of the export's evaluation, with `scores` and `made_from`.

    Returns:
        The comparison; None if the run's own evaluation is missing, or was made with
        different records or weights.
    """
    try:
        own = json.loads((folder / "scores.json").read_bytes())
    except (OSError, ValueError):
        return None
    if own.get("made_from") != result["made_from"]:
        return None
    run_scores = {name: of["score"] for name, of in own["scores"].items()}
    return Comparison(
        run_scores,
        {
            name: of["score"] - run_scores[name]
            for name, of in result["scores"].items()
            if None not in (of["score"], run_scores.get(name))
        },
    )
