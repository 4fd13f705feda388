"""An export's scores beside those of the run that it is of, on the same records."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.pipeline.records.manifest import Manifest


def records_sha256(manifest: Manifest) -> str:
    """What changes with any record of the validation split."""
    sums = sorted(shard.sha256 for shard in manifest.split("validation"))
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


@dataclass(frozen=True)
class Comparison:
    """Scores by name.

    Attributes:
        run_scores: Those of the run's own model; None is not a number.
        differences: What the export's are beyond them.
    """

    run_scores: Mapping[str, float | None]
    differences: Mapping[str, float]

    def told(self) -> str:
        """One line, for people.

        Example:
        >>> Comparison({"macro_f1": 0.75}, {"macro_f1": -0.0125}).told()
        "beside the run's own model on the same records: macro f1 -0.0125"
        """
        listed = ", ".join(
            f"{name.replace('_', ' ')} {difference:+.4f}"
            for name, difference in self.differences.items()
        )
        return f"beside the run's own model on the same records: {listed}"


def compare(folder: Path, result: Mapping[str, Any]) -> Comparison | None:
    """Holds an export's scores against the run's own.

    Args:
        folder: Where an evaluation of the run's own model would be.
        result: The export's: `scores`, and what they were `made_from`.

    Returns:
        None if there is no such evaluation, or one of other records or weights.
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
