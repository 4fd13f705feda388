"""Pictures of planned learning rates and sparsities, and of shares of parameters."""

from collections.abc import Mapping

import keras
import numpy as np

from transbeam.configs.schema.pruning import PruningConfig
from transbeam.configs.schema.schedules import Schedule, count_warmup_steps
from transbeam.pipeline.pages.pictures import COLORS
from transbeam.trainer.explanation.picture import Picture, draw_lines, new_panels
from transbeam.trainer.optimizers.schedules import build_schedule

# More points are not seen.
_POINTS = 500


def schedule_points(
    schedule: Schedule, steps: int, hidden_dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learning rates of a training, from its own schedule.

    Args:
        schedule: The `training.schedule` section of a run.
        steps: Number of updates.
        hidden_dim: The model's width.

    Returns:
        Numbers of updates, from 1, and the learning rate of each.
    """
    built = build_schedule(schedule, steps, hidden_dim)
    numbers = np.unique(np.linspace(1, steps, _POINTS).round().astype("int64"))
    rates = built(keras.ops.convert_to_tensor(numbers - 1))
    return numbers, keras.ops.convert_to_numpy(rates)


def draw_schedules(
    schedules: Mapping[str, Schedule],
    steps: int,
    hidden_dim: int,
    pruning: PruningConfig | None = None,
) -> Picture:
    """Draws learning rates by step, and the planned share of zeros if there is one.

    Args:
        schedules: Schedules by the name of their curve.
        steps: Number of updates.
        hidden_dim: The model's width.
        pruning: The `training.pruning` section of a run.
    """
    figure, panels = new_panels(1 if pruning is None else 2)
    numbers, lines = np.arange(0), []
    for name, schedule in schedules.items():
        numbers, rates = schedule_points(schedule, steps, hidden_dim)
        lines.append((name, rates))
    draw_lines(
        panels[0],
        numbers,
        lines,
        title="learning rate",
        labels=("update", "learning rate"),
    )
    if pruning is not None:
        shares = np.array([pruning.sparsity_at(int(number)) for number in numbers])
        draw_lines(
            panels[1],
            numbers,
            [("", shares)],
            title="zeros in the pruned weights",
            labels=("update", "share"),
        )
    note = "The rate of each update, as planned."
    if len(schedules) == 1:
        (schedule,) = schedules.values()
        warmup = count_warmup_steps(schedule, steps)
        note = f"{schedule.kind} over {steps:,} updates, {warmup:,} of them warm-up."
    return Picture("schedule", "training.schedule", note, figure)


def draw_parameters(parts: Mapping[str, int]) -> Picture:
    """Draws the share of the parameters of each part of a model.

    Args:
        parts: Numbers of parameters by part.
    """
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: part[1])
    figure, (panel,) = new_panels(1, height=0.9 + 0.24 * len(parts))
    names = [name for name, _ in ordered]
    shares = [100 * count / total for _, count in ordered]
    bars = panel.barh(names, shares, color=COLORS[0])
    texts = [f"{count:,}  {100 * count / total:.1f}%" for _, count in ordered]
    panel.bar_label(bars, texts, padding=3, fontsize="x-small")
    panel.set(xlabel="percent", xlim=(0, 1.35 * max(shares)))
    panel.spines[["top", "right"]].set_visible(False)
    note = f"{total:,} parameters by part, all blocks of a stack together."
    return Picture("parameters", "parameters", note, figure)
