"""Heat maps of numbers by layer and head, or by layer and token."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # it takes half a second, and is for those who draw
    from matplotlib.figure import Figure

# A ramp for the color-blind, whose middle is white.
_COLORS = "PuOr_r"


def draw_heat_map(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    across: str,
    meaning: str,
) -> "Figure":
    """Draws signed numbers, with zero in the middle of the colors.

    Args:
        values: `(rows, columns)`; NaN is left empty.
        rows: Labels of the rows, from the top.
        columns: Labels of the columns.
        across: Description of the columns.
        meaning: Description of the numbers.

    Example:
    >>> figure = draw_heat_map(
    ...     np.array([[0.5, -0.1]]), ["0"], ["0", "1"], across="head", meaning="change"
    ... )
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['head', '']
    """
    from matplotlib.figure import Figure

    is_long = max(map(len, columns), default=0) > 2
    # The label of the colors needs the height of some rows, and turned names too.
    height = max(2.8, 1.2 + 0.32 * len(rows)) + (0.9 if is_long else 0.0)
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.subplots()
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    limit = largest or 1.0
    image = axes.imshow(values, _COLORS, vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    if is_long:
        axes.tick_params("x", rotation=90)
    axes.set_xlabel(across)
    figure.colorbar(image, label=meaning)
    return figure
