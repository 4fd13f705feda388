"""HTML report of a training: curves, speed, samples and configuration."""

import io
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
from markupsafe import Markup

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.cli.progress import duration
from transbeam.configs.loader.run_file import preset_files
from transbeam.configs.loader.warmup import settle_warmup
from transbeam.configs.loader.yaml_config import flatten, load_run
from transbeam.configs.schema.run import RunConfig
from transbeam.pipeline.pages.html_templates import render
from transbeam.pipeline.pages.pictures import COLORS
from transbeam.trainer.analysis.training_analysis import (
    entropy_points,
    read_training_analysis,
)
from transbeam.trainer.objectives.baselines import Baseline, read_baseline
from transbeam.trainer.pages.gradient_chart import gradient_chart
from transbeam.trainer.pages.score_curves import (
    Rows,
    both_curves,
    points,
    score_names,
    score_title,
)
from transbeam.trainer.pages.svg_curves import Curve, curves, draw


def training_report(
    config: RunConfig,
    rows: Rows,
    result: Mapping[str, Any],
    facts: Mapping[str, str],
    samples: Markup | None = None,
    analyses: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Renders the page.

    Args:
        config: The run.
        rows: The lines of `metrics.jsonl`.
        result: The result of the training stage.
        facts: Further properties of the training to list in the report, by name.
        samples: Sample predictions for some documents, as HTML.
        analyses: The lines of `analysis.jsonl`.
    """
    limit = config.training.clip_norm
    clipped = "" if limit is None else f"; clipped to {limit:g}"
    return render(
        Path(__file__).parent / "templates" / "training.html",
        title=f"Training of {config.name}",
        summary=result["summary"],
        parts=[
            _loss(rows, read_baseline(result["evaluation"])),
            *(_score(rows, name) for name in score_names(rows)),
            ("Learning rate", "", _curve(rows, "learning_rate")),
            (
                "Gradient norm",
                f"before clipping{clipped}",
                _curve(rows, "gradient_norm"),
            ),
            (
                "Sparsity",
                "share of zeros in the pruned weights",
                _curve(rows, "sparsity"),
            ),
            (
                "Gradient norm by part",
                "before clipping, of the embeddings, each block and what follows them; "
                "the colors are on a logarithmic scale",
                gradient_chart(rows),
            ),
            (
                "Speed",
                "real tokens per second, between two lines of the log",
                _curve(rows, "tokens_per_second"),
            ),
            (
                "Attention entropy",
                "nats, the mean over the heads of each layer; see analysis.jsonl",
                _entropy(analyses),
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


def _curve(rows: Rows, name: str) -> Markup:
    description = name.replace("_", " ")
    return curves([Curve("", points(rows, name))], f"{description} against the step")


def _entropy(analyses: Sequence[Mapping[str, Any]]) -> Markup:
    found = entropy_points(analyses)
    if not found:
        return Markup()
    # No more curves than there are colors, from the first layer to the last.
    chosen = sorted({round(i) for i in np.linspace(0, len(found) - 1, len(COLORS))})
    layers = list(found)
    lines = [Curve(layers[i], found[layers[i]]) for i in chosen]
    return curves(lines, "entropy of attention in nats against the step")


def _score(rows: Rows, name: str) -> tuple[str, str, Markup]:
    note = "of validations"
    lines = both_curves(rows, name)
    if lines[0].points:
        note = f"of the steps between two lines of the log, and {note}"
    description = f"{name.replace('_', ' ')} against the step"
    return score_title(name), note, curves(lines, description)


def _loss(rows: Rows, least: Baseline) -> tuple[str, str, Markup]:
    limit = least.name.partition(" ")[0], least.loss
    description = f"loss in {least.unit} against the step"
    return "Loss", least.unit, curves(both_curves(rows, "loss"), description, limit)


def _facts(rows: Rows, result: Mapping[str, Any]) -> dict[str, str]:
    trained = [row for row in rows if "tokens_per_second" in row]
    # The first line of the log includes the compilation.
    speeds = [row["tokens_per_second"] for row in trained[1:] or trained]
    waits = [row["input_wait"] for row in trained[1:] or trained]
    found = {
        "parameters": f"{result['parameters']:,}",
        "steps": f"{result['steps']:,}",
        "epochs": f"{result['epochs']:.4g}",
        "skipped steps": f"{result['skipped_steps']:,}",
        "time": duration(result["seconds"]),
    }
    if speeds:
        found["tokens per second, median"] = f"{statistics.median(speeds):,.0f}"
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


_SECTIONS = ("tokenizer", "objective", "model", "training")


@cache
def _presets() -> Mapping[str, RunConfig]:
    """All presets by their names, such as `bert_base`."""
    return {
        name: load_run(path, with_model=True) for name, path in preset_files().items()
    }


def nearest_preset(run: RunConfig) -> tuple[str, list[tuple[str, Any, Any]]] | None:
    """Finds the preset with the run's model kind and the most similar `model` section.

    Presets with the run's objective are preferred.

    Args:
        run: Any run.

    Returns:
        The preset's name; and each key outside of `data` whose value differs, with the
        preset's value and the run's value, where None represents a missing key. None if
        no preset has the run's model kind.

    Example:
    >>> name, differences = nearest_preset(_presets()["gpt2_small"])
    >>> name, differences
    ('gpt2_small', [])
    """
    own = flatten(settle_warmup(run), *_SECTIONS)
    found = []
    for name, preset in _presets().items():
        if preset.model.kind != run.model.kind:
            continue
        theirs = flatten(settle_warmup(preset), *_SECTIONS)
        differences = [
            (key, theirs.get(key), own.get(key))
            for key in dict.fromkeys([*own, *theirs])
            if theirs.get(key) != own.get(key)
        ]
        of_model = sum(key.startswith("model.") for key, _, _ in differences)
        other_task = preset.objective.kind != run.objective.kind
        found.append((other_task, of_model, len(differences), name, differences))
    if not found:
        return None
    *_, name, differences = min(found)
    return name, differences


def write_report(
    folder: Path,
    config: RunConfig,
    rows: Sequence[Mapping[str, float]],
    result: Mapping[str, Any],
    samples: Markup | None = None,
) -> dict[str, str]:
    """Writes `loss.png` and `report.html`.

    Args:
        folder: The training stage's folder.
        config: The run.
        rows: The lines of `metrics.jsonl`.
        result: The result of the training stage.
        samples: Sample predictions for some documents, as HTML.

    Returns:
        The paths of the files, by name.
    """
    picture, page = folder / "loss.png", folder / "report.html"
    draw_loss(rows, read_baseline(result["evaluation"]), picture)
    facts = {"backend": keras.backend.backend(), "precision": config.training.precision}
    analyses = read_training_analysis(folder)
    text = training_report(config, rows, result, facts, samples, analyses)
    write_atomically(page, text)
    return {"loss_curve": str(picture), "report": str(page)}


def draw_loss(
    rows: Sequence[Mapping[str, float]], least: Baseline, picture: Path
) -> None:
    """Draws training and validation loss against the step, as a PNG.

    The dashed line is the input-free baseline.

    Args:
        rows: The lines of `metrics.jsonl`.
        least: The baseline.
        picture: The file to write.
    """
    figure = draw(
        both_curves(rows, "loss"), (f"{least.name}, {least.loss:.2f}", least.loss), 4
    )
    figure.axes[0].set(ylabel=least.unit, title="Loss")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_atomically(picture, buffer.getvalue())
