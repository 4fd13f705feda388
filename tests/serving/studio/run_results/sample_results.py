"""The files that the stages of a run leave, with texts that are markup."""

import json
from pathlib import Path
from typing import Any

from tests.serving.conftest import RECORDS_SHA256
from transbeam.configs.loader.run_folder import Stage

HOSTILE = "<img src=x onerror=hacked=1> \u202e</td> & 👩\u200d👩"
PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    "<script>window.hacked = 1</script></svg>"
)
PARITY = [
    {"form": "TFLite", "check": HOSTILE, "value": 0.5, "limit": 0.1, "passed": False},
    {"form": "REST", "check": "ids", "value": 0.0, "limit": 0.0, "passed": True},
]


def log_line(step: int, **numbers: float) -> str:
    """Returns a line of a training's log."""
    return json.dumps({"step": step, "seconds": step / 2, "tokens": 9, **numbers})


LOG = "".join(
    f"{line}\n"
    for line in (
        log_line(1, loss=2.5, learning_rate=0.1),
        log_line(2, loss=1.5, learning_rate=0.2),
        log_line(2, val_loss=1.25),
    )
)


def analysis_line(step: int, *entropy: float) -> str:
    """Returns a line of the log of a training's analyses, of one layer."""
    layers = {"encoder_layer_0/self_attention": {"entropy": entropy}}
    ratios = {"encoder_layer_0": 8.5}
    line = {"step": step, "layers": layers, "participation_ratio": ratios}
    return json.dumps({**line, "idle_heads": 1}) + "\n"


def write_json_file(path: Path, value: Any) -> None:
    """Writes a JSON file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")


def write_sample_results(folder: Path) -> Path:
    """Writes the results of all stages of a run.

    Args:
        folder: The run's folder, new, or with a training.
    """
    _write_data(folder)
    _write_training(folder)
    _write_evaluation(folder / "evaluation/validation")
    export = Stage(folder, "export", "transbeam export")
    form = {"path": "runs/a/export/tflite/a.tflite", "bytes": 50, "latency_ms": 0.5}
    forms = {"saved_model": {**form, "bytes": 100}, "tflite": {HOSTILE: form}}
    scores = {"accuracy": {"keras": 0.75, HOSTILE: 0.5}}
    _finish(export, {**forms, "parity": PARITY, "scores": scores, "summary": "small"})
    phone = Stage(folder, "phone", "transbeam export --target phone")
    latencies = {"1": {"32": 0.25, "64": 0.5}}
    by_length = {"path": "b", "bytes": 25, "latency_ms": latencies}
    _finish(phone, {"tflite": {"int8": by_length}, "parity": [], "summary": "fast"})
    part = {
        "name": "heads",
        "title": "Heads",
        "summary": HOSTILE,
        "notes": [HOSTILE],
        "texts": "3 of validation",
        "files": ["heads.json", "heads_entropy.svg", "heads_gone.svg"],
    }
    summary = {"run": "a", "checkpoint": None, "parts": [part]}
    write_json_file(folder / "analysis/analysis.json", summary)
    (folder / "analysis/heads_entropy.svg").write_text(PICTURE)
    (folder / "analysis/report.html").write_text("<script>hacked = 1</script>")
    return folder


def _finish(stage: Stage, result: dict[str, Any]) -> None:
    stage.path.mkdir(parents=True, exist_ok=True)
    inputs = stage.load()["inputs"] if stage.is_finished else {}
    earlier = stage.load()["result"] if stage.is_finished else {}
    stage.finish(inputs, {**earlier, **result})


def _write_data(folder: Path) -> None:
    data = Stage(folder, "data", "transbeam data")
    counts = {"train": {HOSTILE: 3}, "validation": {HOSTILE: 1}}
    result = {"label_counts": counts, "summary": HOSTILE, "peak_memory_mb": 90}
    _finish(data, {"records_sha256": RECORDS_SHA256, **result})
    manifest = {
        "config": {
            "objective.kind": "masked",
            "data.source.kind": "text",
            "tokenizer.kind": "wordpiece",
        },
        "counts": {
            "read": 4,
            "records": {"train": 2, "validation": 1},
            "documents": {"train": 3},
            "filtered": {HOSTILE: 1},
            "quarantined": {},
        },
        "vocabulary": {"size": 140},
        "padding_fraction": {"train": 0.25},
        "leaks_prevented": 1,
        "sources": [{"name": "a", "bytes": 60}, {"name": "b", "bytes": 40}],
        "shards": [{"path": "records/train-0.tfrecord", "bytes": 30}],
        "features": [
            {"name": "token_ids", "dtype": "int32", "shape": [32], "meaning": HOSTILE}
        ],
    }
    of = {"lengths": [0, 2, 1], "most_frequent": [[HOSTILE, 5], ["a", 2]]}
    write_json_file(folder / "data/manifest.json", manifest)
    write_json_file(folder / "data/statistics.json", {"train": of})
    (folder / "data/card.html").write_text("<script>hacked = 1</script>")


def _write_training(folder: Path) -> None:
    score = {"score": 0.5, "low": 0.25, "high": None}
    evaluation = {"loss": 1.25, "predictions": 8, "scores": {"accuracy": score}}
    result = {
        "parameters": 120,
        "steps": 2,
        "seconds": 1.5,
        "evaluation": evaluation,
        "summary": "learned",
    }
    _finish(Stage(folder, "training", "transbeam train"), result)
    (folder / "training/metrics.jsonl").write_text(LOG)
    lines = analysis_line(1, 2.5, 2.0), analysis_line(2, 1.5, 0.5)
    (folder / "training/analysis.jsonl").write_text("".join(lines))
    (folder / "training/report.html").write_text("<p>report</p>")


def _write_evaluation(folder: Path) -> None:
    interval = {"score": 0.5, "low": 0.25, "high": 0.75}
    scores = {
        "summary": HOSTILE,
        "model": "runs/a/training/model.weights.h5",
        "loss": 1.25,
        "documents": 4,
        "scores": {"accuracy": interval, "perplexity": {**interval, "score": None}},
        "confusions": {"labels": ["a", HOSTILE], "counts": [[3, 1], [2, 4]]},
    }
    write_json_file(folder / "scores.json", scores)
    example = {"source": HOSTILE, "offset": 3, "nats": 2.5, "text": HOSTILE}
    example |= {"target": HOSTILE, "guess": "<b>"}
    lines = [json.dumps(example), json.dumps({**example, "text": "a" * 2**20})]
    (folder / "errors.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "report.html").write_text("<p>report</p>")
