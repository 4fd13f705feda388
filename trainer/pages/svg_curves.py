"""Curves of values, such as the loss against the step, as an SVG chart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from transbeam.pipeline.pages.pictures import COLORS, GRAY, as_svg, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A curve of a chart.

    Attributes:
        name: Name in the legend, if there is a legend.
        points: Place on the axis, such as the step, and value, in order.
        dots: If true, each point is marked. A single point is always marked, as it
            would be invisible otherwise.
    """

    name: str
    points: Sequence[Point]
    dots: bool = False


def curves(
    lines: Sequence[Curve],
    what: str,
    limit: tuple[str, float] | None = None,
    x_label: str = "step",
) -> Markup:
    """Draws curves over one axis, for a page.

    Args:
        lines: The curves; those without a finite point are left out.
        what: Description of the chart with its unit, for `aria-label`.
        limit: Name and value of a dashed horizontal line.
        x_label: Name of the axis.

    Returns:
        An `<svg>` element; empty when there is nothing to draw.
    """
    if not any(math.isfinite(value) for line in lines for _, value in line.points):
        return Markup()
    return as_svg(draw(lines, limit, x_label=x_label), what)


def draw(
    lines: Sequence[Curve],
    limit: tuple[str, float] | None = None,
    height: float = 2.4,
    x_label: str = "step",
) -> "Figure":
    """Draws curves over one axis; see `curves`."""
    figure, axes = new_figure(height)
    for number, line in enumerate(lines):
        points = [point for point in line.points if math.isfinite(point[1])]
        if points:
            axes.plot(
                *zip(*points, strict=True),
                color=COLORS[number],
                marker="o" if line.dots or len(points) == 1 else "",
                markersize=4,
                label=line.name,
                zorder=3 - number / 10,  # the first lies above the others
            )
    if limit:
        axes.axhline(limit[1], color=GRAY, linestyle="--", label=limit[0])
    axes.set_xlabel(x_label)
    if any(line.name for line in lines):
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def short(value: float) -> str:
    """Formats a number with at most four significant digits, for a table.

    Example:
    >>> [short(value) for value in (0.00025, 3.14159, 12345.6, 0.0)]
    ['0.00025', '3.142', '12,346', '0']
    """
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
