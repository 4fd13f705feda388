"""HTML page of a suite: a table of its rows, with scores, cost and shares."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transbeam.configs.cli.progress import duration
from transbeam.pipeline.pages.html_templates import render


def suite_page(results: Mapping[str, Any]) -> str:
    """Renders the page.

    Args:
        results: The content of `suite.json`.
    """
    teacher = results["teacher"]
    rows = results["rows"]
    scored = [
        _scored(row, with_share=teacher is not None) for row in rows if "mean" in row
    ]
    shares = ["of the teacher's"] if teacher else []
    return render(
        Path(__file__).parent / "templates" / "suite.html",
        title=f"Suite {results['name']}",
        count=len(scored),
        all_rows=results["all_rows"],
        average=_number(results["average"]),
        teacher=teacher
        and {
            **teacher,
            "average": _number(teacher["average"]),
            "share": _percent(teacher["share"]),
        },
        titles=["mean", *shares, "left out", "parameters", "time"],
        scored=scored,
        failed=[row for row in rows if row.get("error") is not None],
        missing=[row for row in rows if row["missing"]],
    )


def _scored(row: Mapping[str, Any], *, with_share: bool) -> dict[str, Any]:
    return {
        "name": row["name"],
        "run": row["run"],
        "scores": [
            f"{name} {_number(of['score'])} ({_number(of['low'])} to "
            f"{_number(of['high'])})"
            for name, of in row["scores"].items()
        ],
        "numbers": [
            _number(row["mean"]),
            *([_percent(row.get("share"))] if with_share else []),
            f"{row['left_out']:,}",
            f"{row['parameters']:,}",
            duration(row["seconds"]),
        ],
    }


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
