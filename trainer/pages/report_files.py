"""Writes the report files of a training: a loss curve and an HTML page."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
from markupsafe import Markup

from transbeam.configs.base.atomic_files import write_atomically
from transbeam.configs.schema.run import RunConfig
from transbeam.trainer.objectives.baselines import Baseline, read_baseline
from transbeam.trainer.pages.svg_curves import draw
from transbeam.trainer.pages.training_page import loss_curves, training_report


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
        result: What the training stage says of itself.
        samples: What the model says of some documents.

    Returns:
        The paths of the files, by name.
    """
    picture, page = folder / "loss.png", folder / "report.html"
    draw_loss(rows, read_baseline(result["evaluation"]), picture)
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
    figure = draw(loss_curves(rows), (f"{least.name}, {least.loss:.2f}", least.loss), 4)
    figure.axes[0].set(ylabel=least.unit, title="Loss")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_atomically(picture, buffer.getvalue())
