"""The markers units leave behind when a half of the job is done with them."""

import json
from pathlib import Path
from typing import Any, Literal

Half = Literal["documents", "records"]


def state_path(folder: Path, half: Half, index: int) -> Path:
    """Where the marker of a unit lies."""
    return folder / f"state/{half}-{index:05d}.json"


def read_states(folder: Path, half: Half, units: int) -> list[dict[str, Any]]:
    """The markers of all units, in order; each must be there."""
    return [
        json.loads(state_path(folder, half, index).read_text("utf-8"))
        for index in range(units)
    ]


def finished(folder: Path, half: Half, units: int) -> list[int]:
    """Which units have left their marker so far."""
    return [i for i in range(units) if state_path(folder, half, i).is_file()]
