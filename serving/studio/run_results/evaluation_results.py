"""Evaluations of a run: scores with intervals, and the worst examples."""

from pathlib import Path
from typing import Any

from transbeam.serving.studio.run_results.checked_json import (
    JsonFields,
    read_fields,
    read_lines,
)
from transbeam.serving.studio.run_results.result_files import existing
from transbeam.serving.studio.run_results.stage_states import (
    EVALUATION,
    TRAINING,
    read_result,
)

_PATTERNS = ("*/scores.json", "*/*/scores.json")
_MOST_EXAMPLES = 40
_WIDEST_TABLE = 24
_MOST_ERRORS = 20
# Summaries of all targets, which stand beside the scores.
_NUMBERS = (
    *("loss", "unigram_entropy", "nats_below_unigram", "variance", "uniform_entropy"),
    *("predictions", "documents"),
)


def read_evaluations(folder: Path) -> dict[str, Any] | None:
    """Reads all evaluations of a run's model and of its exports.

    The training's own evaluation is listed if there is no other.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.EVALUATIONS`; None if nothing was evaluated.

    Raises:
        ArtifactError: A file is damaged.
    """
    files = [f for of in _PATTERNS for f in sorted((folder / EVALUATION).glob(of))]
    found = [_read(folder, file) for file in files]
    if not found:
        result = read_result(folder, TRAINING)
        if result is None or "evaluation" not in result:
            return None
        of = result.fields("evaluation")
        found = [{"name": TRAINING, "model": None, **_scores(of, JsonFields({}, ""))}]
        found[0] |= dict.fromkeys(("summary", "confusions", "report"))
        found[0] |= {"examples": []}
    return {"evaluations": found}


def _read(folder: Path, file: Path) -> dict[str, Any]:
    of = read_fields(file)
    examples = file.with_name("errors.jsonl")
    report = file.with_name("report.html").relative_to(folder).as_posix()
    differences = of.fields("differences")
    return {
        "name": file.parent.relative_to(folder / EVALUATION).as_posix(),
        "model": of.text("model"),
        "summary": of.text("summary"),
        **_scores(of, differences),
        "confusions": _confusions(of) if "confusions" in of else None,
        "examples": _examples(examples) if examples.is_file() else [],
        "report": existing(folder, report),
    }


def _scores(of: JsonFields, differences: JsonFields) -> dict[str, Any]:
    scores = of.fields("scores")
    return {
        "numbers": {
            name: value for name in _NUMBERS if (value := of.number(name)) is not None
        },
        "scores": [
            {
                "name": name,
                "score": interval.number("score"),
                "low": interval.number("low"),
                "high": interval.number("high"),
                "difference": differences.number(name),
            }
            for name in scores.names()
            for interval in [scores.fields(name)]
        ],
    }


def _confusions(evaluation: JsonFields) -> dict[str, Any]:
    """Returns a confusion matrix if a page has room for it, and its largest errors."""
    of = evaluation.fields("confusions")
    labels, counts = of.texts("labels"), of.count_rows("counts")
    if {len(labels), *map(len, counts)} != {len(counts)}:
        raise of.error("counts", f"no table of {len(labels)} classes")
    errors = [
        {"target": target, "guess": guess, "count": counts[row][column]}
        for row, target in enumerate(labels)
        for column, guess in enumerate(labels)
        if row != column and counts[row][column]
    ]
    errors.sort(key=lambda error: -error["count"])
    return {
        "labels": labels,
        "counts": counts if len(labels) <= _WIDEST_TABLE else None,
        "errors": errors[:_MOST_ERRORS],
    }


def _examples(file: Path) -> list[dict[str, Any]]:
    return [
        {
            "source": f"{line.text('source', '')}:{line.number('offset') or 0:g}",
            "nats": line.number("nats"),
            "error": line.number("error"),
            "text": line.text("text", ""),
            "second_text": line.text("second_text", ""),
            "target": line.text("target", ""),
            "guess": line.text("guess", ""),
        }
        for line in read_lines(file, _MOST_EXAMPLES)
    ]
