"""Line charts of metrics against the step, as SVG, for pages without scripts."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 220, 64, 96, 12, 34

STYLE = """
svg.curves polyline, svg.curves circle { fill: none; stroke: #2f6fb2;
stroke-width: 2 } svg.curves circle { stroke-width: 3 }
svg.curves .c1 { stroke: #b5542b } svg.curves .c2 { stroke: #6b8e23 }
svg.curves .grid { stroke: #dde3ea } svg.curves .limit { stroke: #8a97a5;
stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) { svg.curves polyline, svg.curves circle {
stroke: #6aa8e6 } svg.curves .c1 { stroke: #e58a5f }
svg.curves .grid { stroke: #313b46 } }
"""

Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A curve of a chart.

    Attributes:
        name: The label at its end.
        points: Step and value, in order.
        dots: If true, each point is marked. A single point always is, as it would be
            invisible otherwise.
    """

    name: str
    points: Sequence[Point]
    dots: bool = False


def curves(
    lines: Sequence[Curve], what: str, limit: tuple[str, float] | None = None
) -> str:
    """Draws curves over one axis of steps.

    Args:
        lines: The curves; those without a finite point are left out.
        what: Description of the chart with its unit, for `aria-label`.
        limit: Name and value of a dashed horizontal line.

    Returns:
        An `<svg>` element; empty when there is nothing to draw.
    """
    shown = [
        Curve(line.name, kept, line.dots)
        for line in lines
        if (kept := [point for point in line.points if math.isfinite(point[1])])
    ]
    if not shown:
        return ""
    values = [value for line in shown for _, value in line.points]
    values += [limit[1]] if limit else []
    low, high = min(values), max(values)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    last = max(line.points[-1][0] for line in shown)

    def place(point: Point) -> str:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * point[0] / max(last, 1)
        return f"{x:.1f},{_height(point[1], low, high):.1f}"

    drawn = [_level(value, low, high) for value in (low, (low + high) / 2, high)]
    if limit:
        y = _height(limit[1], low, high)
        drawn.append(
            f"<line class='limit' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y:.1f}' "
            f"y2='{y:.1f}'/>" + _text(_WIDTH - _RIGHT + 6, y + 4, limit[0], "start")
        )
    ends = _spread([_height(line.points[-1][1], low, high) for line in shown])
    for number, (line, end) in enumerate(zip(shown, ends, strict=True)):
        corners = " ".join(place(point) for point in line.points)
        drawn.append(f"<polyline class='c{number}' points='{corners}'/>")
        if line.dots or len(line.points) == 1:
            drawn += [_dot(place(point), point, number) for point in line.points]
        drawn.append(_text(_WIDTH - _RIGHT + 6, end + 4, line.name, "start"))
    drawn.append(_text(_LEFT, _HEIGHT - 14, "0", "start"))
    drawn.append(_text(_WIDTH - _RIGHT, _HEIGHT - 14, f"step {last:,.0f}", "end"))
    return (
        f"<svg class='curves' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' "
        f"aria-label='{html.escape(what, quote=True)}'>{''.join(drawn)}</svg>"
    )


def short(value: float) -> str:
    """Formats a number for an axis, with about four significant digits.

    Example:
    >>> [short(value) for value in (0.00025, 3.14159, 12345.6, 0.0)]
    ['0.00025', '3.142', '12,346', '0']
    """
    if value and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _spread(heights: Sequence[float], least: float = 14.0) -> list[float]:
    """Moves the heights of labels until none overlaps another.

    Example:
    >>> _spread([50.0, 20.0, 51.0])
    [50.0, 20.0, 64.0]
    """
    found = list(heights)
    order = sorted(range(len(found)), key=found.__getitem__)
    above = -least
    for place in order:
        above = found[place] = max(found[place], above + least)
    below = _HEIGHT - _BOTTOM + least
    for place in reversed(order):
        below = found[place] = min(found[place], below - least)
    return found


def _height(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low)
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)


def _level(value: float, low: float, high: float) -> str:
    y = _height(value, low, high)
    return (
        f"<line class='grid' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' y1='{y:.1f}' "
        f"y2='{y:.1f}'/>" + _text(_LEFT - 6, y + 4, short(value), "end")
    )


def _dot(at: str, point: Point, number: int) -> str:
    """A dot of radius 3, drawn by its stroke, so that it has the color of its line."""
    x, y = at.split(",")
    told = f"<title>step {point[0]:,.0f}: {short(point[1])}</title>"
    return f"<circle class='c{number}' cx='{x}' cy='{y}' r='1.5'>{told}</circle>"


def _text(x: float, y: float, content: str, anchor: str) -> str:
    escaped = html.escape(content)
    return f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}'>{escaped}</text>"
