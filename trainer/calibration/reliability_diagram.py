"""Reliability diagrams: observed frequencies against predicted probabilities."""

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from transbeam.pipeline.pages.pictures import COLORS, GRAY, as_svg, new_panels
from transbeam.trainer.metrics.calibration import ReliabilityBins

_DIAGRAM, _HISTOGRAM = 3.4, 1.2  # inches
_MARKS = ("o", "s")


def reliability_diagram(curves: Mapping[str, ReliabilityBins], event: str) -> Markup:
    """Draws a reliability diagram, with the number of predictions in each bin below.

    A bin is a point at its mean probability and observed frequency, with the 95%
    interval of the frequency. Calibrated probabilities are on the diagonal; points
    below it are overconfident.

    Args:
        curves: The bins of each set of probabilities, by its name in the legend.
        event: The event in words, such as `the predicted class is right`.

    Returns:
        An `<svg>` element.
    """
    figure, (diagram, histogram) = new_panels([_DIAGRAM, _HISTOGRAM])
    diagram.plot((0, 1), (0, 1), color=GRAY, linestyle="--", label="calibrated")
    for number, (name, bins) in enumerate(curves.items()):
        color, bars = COLORS[number], len(bins.count)
        there = bins.count > 0
        probability, frequency = (of[there] for of in bins.shares())
        low, high = (of[there] for of in bins.frequency_intervals())
        ends = np.maximum([frequency - low, high - frequency], 0.0)
        diagram.errorbar(
            probability,
            frequency,
            ends,
            color=color,
            marker=_MARKS[number % len(_MARKS)],
            markersize=4,
            linewidth=1.2,
            elinewidth=0.8,
            capsize=2,
            label=name,
        )
        width = 0.8 / bars / len(curves)
        left = (np.arange(bars) + 0.1) / bars + number * width
        histogram.bar(left, bins.count, width, align="edge", color=color)
    diagram.set_ylabel("observed frequency")
    diagram.set_ylim(-0.02, 1.02)
    diagram.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    histogram.set_ylabel("predictions")
    histogram.set_xlabel("predicted probability")
    histogram.set_xlim(0, 1)
    histogram.locator_params(axis="y", integer=True, nbins=3)
    names = " and ".join(curves)
    return as_svg(
        figure,
        f"Reliability diagram: for each bin of predicted probabilities, how often "
        f"{event}; {names}. The numbers are in the table below.",
    )
