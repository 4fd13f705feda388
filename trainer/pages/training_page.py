"""HTML report of a training: curves, speed, samples and configuration."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from transbeam.configs.cli.progress import duration
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.pages.html_templates import render
from transbeam.trainer.objectives.baselines import Baseline, read_baseline
from transbeam.trainer.pages.nearest_preset import nearest_preset
from transbeam.trainer.pages.svg_curves import Curve, curves

Rows = Sequence[Mapping[str, float]]


def training_report(
    config: RunConfig,
    rows: Rows,
    result: Mapping[str, Any],
    facts: Mapping[str, str],
    samples: Markup | None = None,
) -> str:
    """Renders the page.

    Args:
        config: The run.
        rows: The lines of `metrics.jsonl`.
        result: What the training stage says of itself.
        facts: More to tell, by name.
        samples: What the model says of some documents.
    """
    return render(
        Path(__file__).parent / "templates" / "training.html",
        title=f"Training of {config.name}",
        summary=result["summary"],
        parts=[
            _loss(rows, read_baseline(result["evaluation"])),
            ("Learning rate", "", _curve(rows, "learning_rate")),
            (
                "Gradient norm",
                "before clipping" + _limit_told(config.training.clip_norm),
                _curve(rows, "gradient_norm"),
            ),
            (
                "Speed",
                "real tokens per second, between two lines of the log",
                _curve(rows, "tokens_per_second"),
            ),
            (
                "Samples",
                "what the model says of the first documents of the validation split",
                samples,
            ),
        ],
        numbers={**_facts(rows, result), **facts},
        preset=nearest_preset(config),
    )


def _points(rows: Rows, name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def _curve(rows: Rows, name: str) -> Markup:
    told = name.replace("_", " ")
    return curves([Curve("", _points(rows, name))], f"{told} against the step")


def loss_curves(rows: Rows) -> list[Curve]:
    """The losses in training and validation."""
    return [
        Curve("training", _points(rows, "loss")),
        Curve("validation", _points(rows, "val_loss"), dots=True),
    ]


def _loss(rows: Rows, least: Baseline) -> tuple[str, str, Markup]:
    limit = least.name.partition(" ")[0], least.loss
    told = f"loss in {least.unit} against the step"
    return "Loss", least.unit, curves(loss_curves(rows), told, limit)


def _limit_told(clip_norm: float | None) -> str:
    return "" if clip_norm is None else f"; clipped to {clip_norm:g}"


def _facts(rows: Rows, result: Mapping[str, Any]) -> dict[str, str]:
    trained = [row for row in rows if "tokens_per_second" in row]
    # The first line of the log includes the compilation.
    speeds = [row["tokens_per_second"] for row in trained[1:] or trained]
    waits = [row["input_wait"] for row in trained[1:] or trained]
    found = {
        "parameters": f"{result['parameters']:,}",
        "steps": f"{result['steps']:,}",
        "skipped steps": f"{result['skipped_steps']:,}",
        "time": duration(result["seconds"]),
    }
    if speeds:
        middle = statistics.median(speeds)
        found["tokens per second, median"] = f"{middle:,.0f}"
        shares = [row["mfu"] for row in trained[1:] or trained if "mfu" in row]
        # Some line lacks `mfu` if the measured peak turned out too low.
        if len(shares) == len(speeds):
            use = statistics.median(shares)
            found["share of what products of matrices reach (MFU), median"] = (
                f"{use:.1%}"
            )
        found |= {
            "spread": f"{min(speeds):,.0f} to {max(speeds):,.0f}",
            "share of time waiting for input, mean": f"{statistics.fmean(waits):.2%}",
        }
    return found
