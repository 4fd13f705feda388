"""Writes the report files of a training: a loss curve and an HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.objectives.baselines import Baseline, yardstick
from transbeam.trainer.pages.training_page import training_report


def write_report(
    folder: Path,
    config: RunConfig,
    rows: Sequence[Mapping[str, float]],
    result: Mapping[str, Any],
    samples: str = "",
) -> dict[str, str]:
    """Writes `loss.png` and `report.html`.

    Args:
        folder: The training stage's folder.
        config: The run.
        rows: The lines of `metrics.jsonl`.
        result: The result of the training stage.
        samples: HTML of sample predictions.

    Returns:
        The paths of the files, by name.
    """
    picture, page = folder / "loss.png", folder / "report.html"
    draw_loss(rows, yardstick(result["evaluation"]), picture)
    precision = config.training.precision
    facts = {"backend": keras.backend.backend(), "precision": precision}
    write_atomically(page, training_report(config, rows, result, facts, samples))
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
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, label, style in (
        ("loss", "training", {"color": "#9db7d5", "linewidth": 1.2}),
        ("val_loss", "validation", {"color": "#1f4e8c", "linewidth": 2, "marker": "o"}),
    ):
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, markersize=4, **style)
    axes.axhline(
        least.loss,
        color="#b5542b",
        linestyle="--",
        linewidth=1.2,
        label=f"{least.name}, {least.loss:.2f}",
    )
    axes.set_xlabel("step")
    axes.set_ylabel(least.unit)
    axes.set_title("Loss", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    axes.legend(frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_atomically(picture, buffer.getvalue())
