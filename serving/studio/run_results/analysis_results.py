"""The parts of a run's analysis, and the sweep that a run belongs to."""

from pathlib import Path
from typing import Any

from transbeam.serving.studio.run_results.checked_json import read_fields
from transbeam.serving.studio.run_results.result_files import existing, list_files
from transbeam.serving.studio.run_results.stage_states import ANALYSIS

_SWEEP = "sweep.json"


def read_analysis(folder: Path) -> dict[str, Any] | None:
    """Reads the parts of an analysis.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.ANALYSIS`; None if there is no analysis.

    Raises:
        ArtifactError: The summary is damaged.
    """
    file = folder / ANALYSIS / "analysis.json"
    if not file.is_file():
        return None
    of, files = read_fields(file), list_files(folder)
    checkpoint = of.number("checkpoint")
    parts = []
    for part in of.objects("parts"):
        name = part.text("name")
        pictures = [
            f"{ANALYSIS}/{file}"
            for file in part.texts("files")
            if file.endswith(".svg")
        ]
        parts.append(
            {
                "name": name,
                "title": part.text("title"),
                "summary": part.text("summary"),
                "texts": part.text("texts", ""),
                "notes": part.texts("notes"),
                "figures": [
                    {"file": picture, "caption": _caption(picture, name)}
                    for picture in pictures
                    if picture in files
                ],
            }
        )
    report = existing(folder, f"{ANALYSIS}/report.html")
    return {"checkpoint": checkpoint, "parts": parts, "report": report}


def read_sweep(folder: Path) -> dict[str, Any] | None:
    """Reads the table of the sweep that a run belongs to.

    Args:
        folder: The run's folder, in that of the sweep.

    Returns:
        A JSON object, see `schemas.SWEEP`; None if the run is of no sweep.

    Raises:
        ArtifactError: The sweep's table is damaged.
    """
    whole = folder.resolve()
    file = whole.parent / _SWEEP
    if not file.is_file():
        return None
    of = read_fields(file)
    runs = []
    for run in of.objects("runs"):
        name = Path(run.text("run")).name
        runs.append(
            {
                "run": name,
                "is_this": name == whole.name,
                "replaced": run.texts("replaced"),
                "error": run.text("error") if "error" in run else None,
                "loss": run.number("loss"),
                "scores": run.numbers("scores"),
                "parameters": run.number("parameters"),
                "seconds": run.number("seconds"),
                "tokens_per_second": run.number("tokens_per_second"),
            }
        )
    if not any(run["is_this"] for run in runs):
        return None
    return {"name": of.text("name"), "runs": runs}


def _caption(picture: str, part: str) -> str:
    """Returns a picture's caption, from the name of its file.

    Example:
    >>> _caption("analysis/heads_by_layer.svg", "heads")
    'by layer'
    """
    return Path(picture).stem.removeprefix(part).replace("_", " ").strip()
