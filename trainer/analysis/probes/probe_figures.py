"""Figures of probes: accuracy against depth, and weights of the layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.pipeline.pages.pictures import COLORS, GRAY
from transbeam.trainer.analysis.probes.probe_results import ProbeResult
from transbeam.trainer.metrics.confidence_intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS, _WIDTH, _HEIGHT = 2, 7.6, 2.5


def draw_accuracies(results: Sequence[ProbeResult]) -> "Figure":
    """Draws accuracy, and that of the control task, with intervals against depth.

    A dashed line is the accuracy of the most frequent label.
    """
    figure, grid = _new_grid(len(results))
    for axes, result in zip(grid, results, strict=True):
        _draw_curve(axes, result.accuracy, COLORS[0], "task")
        if result.control is not None:
            _draw_curve(axes, result.control, COLORS[1], "control task")
        baseline = result.majority.score
        axes.axhline(baseline, color=GRAY, linestyle="--", label="most frequent label")
        axes.set_title(result.task, size=9)
        axes.set_ylim(0, 1)
        axes.set_ylabel("accuracy", size=8)
    grid[0].legend(frameon=False, fontsize=7)
    return figure


def draw_mixes(results: Sequence[ProbeResult]) -> "Figure":
    """Draws the weight of each layer in the mixtures, and their centers of gravity."""
    figure, grid = _new_grid(len(results))
    for axes, result in zip(grid, results, strict=True):
        axes.bar(range(len(result.mix)), result.mix, color=COLORS[0])
        axes.axvline(result.center, color=COLORS[1], label="center of gravity")
        axes.set_title(result.task, size=9)
        axes.set_ylabel("weight in the mixture", size=8)
    grid[0].legend(frameon=False, fontsize=7)
    return figure


def _draw_curve(
    axes: "Axes", curve: Sequence[Interval], color: str, label: str
) -> None:
    score, low, high = np.array(curve).T
    depth = np.arange(len(score))
    axes.fill_between(depth, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(depth, score, color=color, marker="o", markersize=3, label=label)


def _new_grid(number: int) -> "tuple[Figure, list[Axes]]":
    """Returns a figure with a number of axes whose x axis is the layer."""
    from matplotlib.figure import Figure

    rows = -(-number // _COLUMNS)
    columns = min(number, _COLUMNS)
    figure = Figure(figsize=(_WIDTH, _HEIGHT * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in grid[number:]:
        axes.remove()
    for axes in grid[:number]:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("layer; 0 is the embeddings", size=8)
    return figure, grid[:number]
