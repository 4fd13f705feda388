"""Pictures with their texts, and axes for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from transbeam.pipeline.pages.pictures import COLORS, GRAY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches, of a page's width.
_WIDTH = 7.6
# Around zero, and around a circle.
DIVERGING, CYCLIC, SEQUENTIAL = "RdBu_r", "twilight", "viridis"
_PIXELS_PER_INCH = 150


@dataclass(frozen=True)
class Picture:
    """A figure with its texts.

    Attributes:
        name: A short name for a file, such as `position_rope`.
        title: A heading.
        note: What it shows and what of it matters, in a sentence or a few.
        figure: The figure; None if there is nothing to draw.
    """

    name: str
    title: str
    note: str
    figure: "Figure | None" = None


def new_panels(number: int, height: float = 2.8) -> "tuple[Figure, list[Axes]]":
    """Makes a figure of a page's width with panels beside each other.

    Args:
        number: Number of panels.
        height: Height of the figure, in inches.
    """
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(_WIDTH, height), layout="constrained", dpi=_PIXELS_PER_INCH
    )
    panels = figure.subplots(1, number, squeeze=False)[0]
    for panel in panels:
        panel.tick_params(color=GRAY, labelsize="x-small")
        for spine in panel.spines.values():
            spine.set_color(GRAY)
    return figure, list(panels)


def set_titles(panel: "Axes", title: str, labels: tuple[str, str]) -> None:
    """Sets a panel's title and the labels of its horizontal and vertical axis."""
    panel.set_title(title, fontsize="small")
    panel.set_xlabel(labels[0], fontsize="x-small")
    panel.set_ylabel(labels[1], fontsize="x-small")


def draw_map(
    panel: "Axes",
    values: np.ndarray,
    colors: str,
    *,
    title: str,
    labels: tuple[str, str],
    limits: tuple[float, float] | None = None,
) -> None:
    """Draws an array `(rows, columns)` as a map, with a color bar.

    Args:
        panel: The axes.
        values: The array.
        colors: A color map of matplotlib.
        title: Title of the panel.
        labels: Labels of the columns' and of the rows' axis.
        limits: Values at the ends of the colors; those of the array if left out.
    """
    low, high = limits or (float(values.min()), float(values.max()))
    image = panel.imshow(
        values,
        cmap=colors,
        vmin=low,
        vmax=high,
        aspect="auto",
        interpolation="nearest",
    )
    set_titles(panel, title, labels)
    bar = panel.figure.colorbar(image, ax=panel, fraction=0.06, pad=0.02)
    bar.ax.tick_params(labelsize="x-small")
    bar.outline.set_edgecolor(GRAY)


def draw_lines(
    panel: "Axes",
    x: np.ndarray,
    lines: Sequence[tuple[str, np.ndarray]],
    *,
    title: str,
    labels: tuple[str, str],
) -> None:
    """Draws curves over one axis, with a legend if there are several.

    Args:
        panel: The axes.
        x: Positions on the horizontal axis.
        lines: Name and values of each curve.
        title: Title of the panel.
        labels: Labels of the horizontal and of the vertical axis.
    """
    for number, (name, values) in enumerate(lines):
        color = COLORS[number % len(COLORS)]
        panel.plot(x, values, color=color, label=name, linewidth=1.2)
    set_titles(panel, title, labels)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color=GRAY, alpha=0.3, linewidth=0.6)
    if len(lines) > 1:
        panel.legend(
            frameon=False,
            fontsize="x-small",
            loc="center left",
            bbox_to_anchor=(1, 0.5),
        )
