"""HTML report of a training: curves, speed, samples and configuration."""

import html
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transbeam.configs.base.html_page import page
from transbeam.configs.cli.progress import duration
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.evaluation.html_examples import EXAMPLES
from transbeam.trainer.objectives.baselines import Baseline, yardstick
from transbeam.trainer.pages.nearest_preset import nearest_preset
from transbeam.trainer.pages.svg_curves import STYLE, Curve, curves

Rows = Sequence[Mapping[str, float]]


def training_report(
    config: RunConfig,
    rows: Rows,
    result: Mapping[str, Any],
    facts: Mapping[str, str],
    samples: str = "",
) -> str:
    """Renders the page.

    Args:
        config: The run.
        rows: The lines of `metrics.jsonl`.
        result: The result of the training stage.
        facts: Further rows of the facts table, by name.
        samples: HTML of sample predictions.
    """
    least = yardstick(result["evaluation"])
    parts = [
        f"<p>{html.escape(result['summary'])}</p>",
        _section("Loss", least.unit, _loss(rows, least)),
        _section("Learning rate", "", _curve(rows, "learning_rate")),
        _section(
            "Gradient norm",
            "before clipping" + _limit_told(config.training.clip_norm),
            _curve(rows, "gradient_norm"),
        ),
        _section(
            "Speed",
            "real tokens per second, between two lines of the log",
            _curve(rows, "tokens_per_second"),
        ),
        _section(
            "Samples",
            "what the model says of the first documents of the validation split",
            samples,
        ),
        _section("In numbers", "", _table(_facts(rows, result) | dict(facts))),
        _preset(config),
    ]
    return page(
        f"Training of {config.name}", "\n".join(filter(None, parts)), STYLE + EXAMPLES
    )


def _section(title: str, told: str, body: str) -> str:
    if not body:
        return ""
    told = f"<p>{html.escape(told)}</p>" if told else ""
    return f"<section><h2>{html.escape(title)}</h2>{told}{body}</section>"


def _points(rows: Rows, name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def _curve(rows: Rows, name: str) -> str:
    told = name.replace("_", " ")
    return curves([Curve("", _points(rows, name))], f"{told} against the step")


def _loss(rows: Rows, least: Baseline) -> str:
    return curves(
        [
            Curve("training", _points(rows, "loss")),
            Curve("validation", _points(rows, "val_loss"), dots=True),
        ],
        f"loss in {least.unit} against the step",
        (least.name.partition(" ")[0], least.loss),
    )


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


def _preset(config: RunConfig) -> str:
    """Table of the differences to the most similar published configuration."""
    if (found := nearest_preset(config)) is None:
        return ""
    name, differences = found
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(key)}</th>"
        f"<td>{_value(theirs)}</td><td>{_value(own)}</td></tr>"
        for key, theirs, own in differences
    )
    table = (
        f"<table><tr><th scope='col'>key</th><th scope='col'>{html.escape(name)}</th>"
        f"<th scope='col'>this run</th></tr>{rows}</table>"
    )
    told = f"what it is most like is the preset {name}; all other keys are the same"
    return _section("Beside a published model", told, table)


def _value(value: Any) -> str:
    return "–" if value is None else html.escape(str(value))


def _table(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        f"<td>{html.escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"
