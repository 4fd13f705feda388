"""The report of an evaluation, as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.pipeline.evaluation_set import ValidationDocuments
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.calibration.split_calibration import SplitCalibration
from transbeam.trainer.evaluation.calibration_findings import CalibrationFindings
from transbeam.trainer.evaluation.collectors import Confusions
from transbeam.trainer.evaluation.comparison import Comparison
from transbeam.trainer.evaluation.error_analysis import ErrorAnalysis
from transbeam.trainer.evaluation.html_examples import examples
from transbeam.trainer.metrics.confidence_intervals import Interval
from transbeam.trainer.metrics.counts import ClassCounts

_MOST_EXAMPLES = 40
_WIDEST_TABLE = 20
_MOST_PAIRS = 30
_NOTHING_FITTED = CalibrationFindings()


def report(
    title: str,
    summary: str,
    facts: Mapping[str, str],
    scores: Mapping[str, Interval],
    analysis: ErrorAnalysis,
    held_out: ValidationDocuments,
    comparison: Comparison | None = None,
    calibration: CalibrationFindings = _NOTHING_FITTED,
) -> str:
    """Renders the page.

    Args:
        title: Its heading.
        summary: A summary of the results.
        facts: Properties of the evaluation to list in the report, by name.
        scores: All scores.
        analysis: Examples and confusions.
        held_out: The evaluated documents; if they are images, the report shows them.
        comparison: For an export, the comparison with the run's own model.
        calibration: The calibration of the model's probabilities, and thresholds.
    """
    columns = ["value", "interval"]
    if comparison is not None:
        columns += ["the run's own", "difference"]
    return render(
        Path(__file__).parent / "templates" / "evaluation.html",
        title=title,
        summary=summary,
        columns=columns,
        scores=[
            {
                "name": name.replace("_", " "),
                "numbers": [
                    _number(of.score),
                    f"{_number(of.low)} to {_number(of.high)}",
                    *_compared(name, comparison),
                ],
                "bar": _bar(name, of),
            }
            for name, of in scores.items()
        ],
        parts={
            name: {
                "texts": f"{part.texts:,}",
                "scores": {
                    score.replace("_", " "): _with_interval(of)
                    for score, of in part.scores.items()
                },
            }
            for name, part in analysis.parts.items()
        },
        confusions=analysis.confusions and _confusions(analysis.confusions),
        calibration=calibration.split and _calibration(calibration.split),
        thresholds=calibration.thresholds,
        examples=examples(analysis.examples[:_MOST_EXAMPLES], held_out),
        about=facts,
    )


def _compared(name: str, comparison: Comparison | None) -> list[str]:
    """Returns the score of the run's own model, and the difference."""
    if comparison is None:
        return []
    own, difference = comparison.run_scores.get(name), comparison.differences.get(name)
    shown = "–" if difference is None else f"{difference:+.4f}"
    return [_number(np.nan if own is None else own), shown]


def _number(value: float) -> str:
    """Formats a score with about four significant digits; non-finite ones as a dash.

    Example:
    >>> [_number(value) for value in (0.51236, 41.1134, 2950.4, float("nan"))]
    ['0.5124', '41.11', '2,950', '–']
    """
    if not np.isfinite(value):
        return "–"
    digits = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}"


def _with_interval(of: Interval) -> str:
    return f"{_number(of.score)} ({_number(of.low)} to {_number(of.high)})"


# Upper bounds of the scores that are not between 0 and 1; None if unbounded.
_ENDS = {
    "bleu": 100.0,
    "bleu_lowercase": 100.0,
    "chrf": 100.0,
    "perplexity": None,
    "nats_per_token": None,
    "bits_per_byte": None,
    "brier_score": None,
    "mse": None,
    "mae": None,
}


def _bar(name: str, of: Interval) -> tuple[float, float, float] | None:
    """Scales a score and its interval to an axis of length 200."""
    end = _ENDS.get(name, 1.0)
    if end is None or not np.isfinite([*of]).all() or of.low < 0:
        return None
    return 200 * of.low / end, 200 * of.high / end, 200 * of.score / end


def _calibration(found: SplitCalibration) -> dict[str, Any]:
    return {
        "event": found.event,
        "note": str(found),
        "diagram": found.diagram(),
        "tables": {
            name: _bins(quality.rows()) for name, quality in found.qualities().items()
        },
    }


def _bins(rows: Sequence[Mapping[str, float]]) -> list[tuple[str, list[str]]]:
    """Formats the bins of a reliability diagram that are not empty."""
    return [
        (f"{number / len(rows):.3f} to {(number + 1) / len(rows):.3f}", _bin(row))
        for number, row in enumerate(rows)
        if row["count"]
    ]


def _bin(row: Mapping[str, float]) -> list[str]:
    """Formats the numbers of a bin of a reliability diagram."""
    ends = f"{row['frequency_low']:.3f} to {row['frequency_high']:.3f}"
    means = (f"{row[name]:.3f}" for name in ("probability", "frequency"))
    return [f"{row['count']:,}", *means, ends]


def _confusions(found: Confusions) -> dict[str, Any]:
    labels, table = found.labels, found.table
    counts = ClassCounts(np.diag(table), table.sum(axis=0), table.sum(axis=1))
    return {
        "labels": labels,
        "table": table.tolist(),
        "shares": (table / np.maximum(table.sum(axis=1, keepdims=True), 1)).tolist(),
        "pairs": _pairs(labels, table) if len(labels) > _WIDEST_TABLE else None,
        "classes": {
            label: [*(f"{value:.3f}" for value in of[:3]), f"{of.support:,}"]
            for label, of in counts.table(labels).items()
        },
    }


def _pairs(labels: Sequence[str], table: np.ndarray) -> list[tuple[str, str, str]]:
    """Returns the most frequent errors: target class, predicted class and count."""
    wrong = table * (1 - np.eye(len(labels), dtype=np.int64))
    order: list[int] = np.argsort(-wrong, axis=None, kind="stable").tolist()
    cells = [divmod(cell, len(labels)) for cell in order[:_MOST_PAIRS]]
    return [
        (labels[row], labels[column], f"{wrong[row, column]:,}")
        for row, column in cells
        if wrong[row, column]
    ]
