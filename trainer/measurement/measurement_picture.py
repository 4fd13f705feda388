"""Draws measured time and memory against size, with the theory beside them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transbeam.pipeline.pages.pictures import COLORS, GRAY
from transbeam.trainer.measurement.measurement_text import TITLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"forward": "forward", "step": "update"}


def draw_measurement(name: str, measured: Mapping[str, Any]) -> "Figure":
    """Draws a row for each axis: milliseconds, and megabytes.

    Dots are medians, with a bar from the least to the most; dashed lines are what
    `model/cost` expects.

    Args:
        name: The run's name.
        measured: The result of
            `transbeam.trainer.measurement.measurement.measure_cost`.
    """
    from matplotlib.figure import Figure

    axes = {axis: x for axis, x in measured["axes"].items() if x["points"]}
    figure = Figure(figsize=(8, 2.7 * max(len(axes), 1)), layout="constrained")
    figure.suptitle(
        f"{name} on {measured['device']}, {measured['backend']}, "
        f"{measured['precision']}"
    )
    places = figure.subplots(max(len(axes), 1), 2, squeeze=False)
    for (axis, found), (left, right) in zip(axes.items(), places, strict=False):
        _draw_times(left, found)
        _draw_memory(right, found)
        sizes = [point["size"] for point in found["points"]]
        for place in (left, right):
            place.set(xscale="log", xlabel=TITLES[axis])
            place.set_xticks(sizes, [f"{size:,}" for size in sizes])
            place.xaxis.minorticks_off()
            place.axvline(found["own"], color=GRAY, linewidth=0.6, alpha=0.6)
            place.grid(axis="y", color=GRAY, alpha=0.3, linewidth=0.6)
            place.spines[["top", "right"]].set_visible(False)
    for place in places[0]:
        if place.has_data():
            place.legend(frameon=False, fontsize="small")
    return figure


def _draw_times(place: "Axes", found: Mapping[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    sizes = [point["size"] for point in found["points"]]
    for color, (work, name) in zip(COLORS, _NAMES.items(), strict=False):
        seconds = [point["seconds"][work] for point in found["points"]]
        medians = [1e3 * x["median"] for x in seconds]
        below = [1e3 * (x["median"] - x["least"]) for x in seconds]
        above = [1e3 * (x["most"] - x["median"]) for x in seconds]
        place.errorbar(
            sizes,
            medians,
            (below, above),
            fmt="o",
            color=color,
            markersize=4,
            elinewidth=1,
            label=name,
        )
        expected = [point["expected_seconds"][work] for point in found["points"]]
        if None not in expected:
            theory = [1e3 * x for x in expected]
            place.plot(sizes, theory, "--", color=color, label=f"{name}, by FLOPs")
    place.set(yscale="log", ylabel="ms")
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    place.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    place.yaxis.set_minor_formatter(NullFormatter())


def _draw_memory(place: "Axes", found: Mapping[str, Any]) -> None:
    sizes = [point["size"] for point in found["points"]]
    measured = [point["memory"] / 1e6 for point in found["points"]]
    counted = [point["expected_memory"] / 1e6 for point in found["points"]]
    place.plot(sizes, measured, "o", color=COLORS[2], markersize=4, label="measured")
    place.plot(sizes, counted, "--", color=COLORS[2], label="counted")
    place.set_ylabel("MB")
    place.set_ylim(bottom=0)
