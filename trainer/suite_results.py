"""The results of a suite: rows, average, and the share of a teacher's scores."""

import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.suite import Suite

RESULTS = "suite.json"


def read_entries(folder: Path) -> dict[str, Any]:
    """The entries of an earlier call that have scores, by name."""
    path = folder / RESULTS
    if not path.is_file():
        return {}
    rows = _read_results(path)["rows"]
    return {row["name"]: row for row in rows if row.get("made_from") is not None}


def _read_results(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(
            f"{path}: cannot be read ({error}). Move it away, and run the suite again"
        ) from error


def read_teacher(folder: Path, names: Collection[str], suite: str) -> dict[str, Any]:
    """Reads the results of another suite.

    Args:
        folder: The other suite's folder.
        names: Names of the rows of this suite.
        suite: This suite's name.

    Returns:
        `folder`, and `means`: the mean score of each row.

    Raises:
        ArtifactError: There are none, or no row is in both suites.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise ArtifactError(
            f"{path}: is not there. --teacher takes the folder of a suite that is "
            "finished, such as runs/glue"
        )
    means = {
        row["name"]: row["mean"]
        for row in _read_results(path)["rows"]
        if row.get("made_from") is not None
    }
    if not means.keys() & {*names}:
        raise ArtifactError(
            f"{path}: no row of {suite} is finished there; it has "
            f"{', '.join(means) or 'none'}"
        )
    return {"folder": str(folder), "means": means}


def collect_results(
    plan: Suite, found: Mapping[str, Mapping[str, Any]], teacher: dict[str, Any] | None
) -> dict[str, Any]:
    """The content of `suite.json`: rows in the order of the file, and the average.

    Args:
        plan: The suite.
        found: The entries of the rows that are done, failed or have no files, by name.
        teacher: The result of `read_teacher`.
    """
    rows = [dict(found[row.name]) for row in plan.rows if row.name in found]
    scored = [row for row in rows if "mean" in row]
    results: dict[str, Any] = {
        "name": plan.name,
        "all_rows": len(plan.rows),
        "rows": rows,
        "average": _mean([row["mean"] for row in scored]),
        "teacher": None,
    }
    if teacher is None:
        return results
    means = teacher["means"]
    both = [row for row in scored if row["name"] in means]
    for row in both:
        row["share"] = _share(row["mean"], means[row["name"]])
    ours = _mean([row["mean"] for row in both])
    theirs = _mean([means[row["name"]] for row in both])
    return {
        **results,
        "teacher": {
            "folder": teacher["folder"],
            "rows": len(both),
            "average": theirs,
            "share": None if ours is None or theirs is None else _share(ours, theirs),
        },
    }


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _share(ours: float, theirs: float) -> float | None:
    """The share of a teacher's score; None if that is not positive."""
    return ours / theirs if theirs > 0 else None


def format_table(results: Mapping[str, Any]) -> list[str]:
    """Formats the content of `suite.json` as lines of text.

    Example:
    >>> score = {"score": 0.8, "low": 0.75, "high": 0.85}
    >>> row = {"name": "rte", "missing": [], "error": None, "mean": 0.8}
    >>> row |= {"scores": {"accuracy": score}, "share": 0.975, "left_out": 2}
    >>> teacher = {"folder": "runs/big", "rows": 1, "average": 0.82, "share": 0.975}
    >>> found = {"name": "glue", "all_rows": 9, "average": 0.8, "teacher": teacher}
    >>> for line in format_table({**found, "rows": [row]}):
    ...     print(line)
    glue: 1 of 9 rows
      rte  0.800  97.5%  accuracy 0.800 (0.750 to 0.850); 2 documents left out
    average of 1 row 0.800, 97.5% of the 0.820 of runs/big
    """
    rows, teacher = results["rows"], results["teacher"]
    scored = [row for row in rows if "mean" in row]
    lines = [f"{results['name']}: {len(scored)} of {results['all_rows']} rows"]
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        name = f"  {row['name']:{width}}  "
        if row["missing"]:
            lines.append(f"{name}no file {row['missing'][0]}")
        elif row["error"] is not None:
            lines.append(f"{name}failed")
        else:
            lines.append(name + _scored_line(row, with_share=teacher is not None))
    if results["average"] is not None:
        number = f"{len(scored)} row{'s' * (len(scored) != 1)}"
        lines.append(f"average of {number} {results['average']:.3f}")
        if teacher is not None and teacher["share"] is not None:
            of = f"{teacher['average']:.3f} of {teacher['folder']}"
            if teacher["rows"] < len(scored):
                of += f" in the {teacher['rows']} rows of both"
            lines[-1] += f", {teacher['share']:.1%} of the {of}"
    return lines


def _scored_line(row: Mapping[str, Any], *, with_share: bool) -> str:
    share = row.get("share")
    shown = "" if not with_share else "  –    " if share is None else f"  {share:.1%}"
    scores = ", ".join(
        f"{name} {of['score']:.3f} ({of['low']:.3f} to {of['high']:.3f})"
        for name, of in row["scores"].items()
    )
    skipped = f"; {row['left_out']:,} documents left out" if row["left_out"] else ""
    return f"{row['mean']:.3f}{shown}  {scores}{skipped}"
