"""Exports of a run: sizes, latencies, scores, and the comparisons with Keras."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transbeam.serving.studio.run_results.checked_json import JsonFields
from transbeam.serving.studio.run_results.result_files import existing
from transbeam.serving.studio.run_results.stage_states import (
    EXPORT,
    PHONE,
    read_result,
)


def read_exports(folder: Path) -> dict[str, Any] | None:
    """Reads what the page shows of a run's exports.

    Args:
        folder: The run's folder.

    Returns:
        A JSON object, see `schemas.EXPORTS`; None if nothing was exported.

    Raises:
        ArtifactError: A `stage.json` is damaged.
    """
    forms: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    metrics: list[dict[str, Any]] = []
    exported = False
    for target in (EXPORT, PHONE):
        result = read_result(folder, target)
        if result is None:
            continue
        exported = True
        forms += _forms(target, result)
        metrics += _metrics(target, result.fields("scores"))
        checks += [
            {
                "target": target,
                "form": check.text("form"),
                "check": check.text("check"),
                "value": check.number("value"),
                "limit": check.number("limit"),
                "passed": check.flag("passed"),
            }
            for check in result.objects("parity")
        ]
    if not exported:
        return None
    picture = existing(folder, "phone/phone_report.png")
    return {"forms": forms, "checks": checks, "metrics": metrics, "picture": picture}


def _forms(target: str, result: JsonFields) -> Iterator[dict[str, Any]]:
    """Yields the files and folders of an export that have a size."""
    if "saved_model" in result:
        yield _form(target, "SavedModel", result.fields("saved_model"))
    variants = result.fields("tflite")
    for name in variants.names():
        yield _form(target, f"TFLite {name}", variants.fields(name))


def _form(target: str, name: str, of: JsonFields) -> dict[str, Any]:
    return {
        "target": target,
        "name": name,
        "path": of.text("path", ""),
        "bytes": of.number("bytes"),
        "latencies": list(_latencies(of)),
    }


def _latencies(of: JsonFields) -> Iterator[dict[str, Any]]:
    """Yields the latency of a call, by threads and tokens if these were varied."""
    if "latency_ms" not in of:
        return
    if not of.is_object("latency_ms"):
        yield {"threads": None, "tokens": None, "ms": of.number("latency_ms")}
        return
    by_threads = of.fields("latency_ms")
    for threads in by_threads.names():
        for tokens, ms in by_threads.numbers(threads).items():
            yield {"threads": threads, "tokens": tokens, "ms": ms}


def _metrics(target: str, scores: JsonFields) -> list[dict[str, Any]]:
    """Returns the task's metric of the Keras model and of each phone variant."""
    return [
        {"target": target, "metric": metric, "model": model, "score": score}
        for metric in scores.names()
        for model, score in scores.numbers(metric).items()
    ]
