"""Heat map of the gradient's norm by part of the model and step."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from transbeam.pipeline.pages.pictures import GRAY, as_svg

if TYPE_CHECKING:  # it takes half a second, and is for those who draw
    from matplotlib.figure import Figure

# A ramp that is monotonic in brightness, for the color-blind and on gray prints.
_COLORS = "viridis"
# More columns than a page has room for; each is the mean of some lines of the log.
_MOST_COLUMNS = 240


def gradient_chart(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Draws the norms of the log as an `<svg>` element; empty if there are none.

    Args:
        rows: The lines of `metrics.jsonl`.
    """
    steps, parts, norms = gradient_norms(rows)
    if not np.any(norms > 0):
        return Markup()
    what = "norm of the gradient by part of the model against the step, as colors"
    return as_svg(draw_gradient_norms(steps, parts, norms), what)


def gradient_norms(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Collects the norms of a log.

    Returns:
        The step of each line that has norms, int64 `(n,)`; the parts of the model; and
        the norms, float64 `(parts, n)`, where a missing one is NaN.

    Example:
    >>> rows = [{"step": 2, "gradient_norms": {"embeddings": 0.5, "head": 2.0}}]
    >>> steps, parts, norms = gradient_norms([{"step": 1, "val_loss": 3.0}, *rows])
    >>> steps.tolist(), parts, norms.tolist()
    ([2], ['embeddings', 'head'], [[0.5], [2.0]])
    """
    found = [(row["step"], row["gradient_norms"]) for row in rows if _has_norms(row)]
    parts = list(dict.fromkeys(part for _, norms in found for part in norms))
    values = [[norms.get(part, np.nan) for _, norms in found] for part in parts]
    shape = (len(parts), len(found))
    norms = np.array(values, np.float64).reshape(shape)
    return np.array([step for step, _ in found], np.int64), parts, norms


def _has_norms(row: Mapping[str, Any]) -> bool:
    return "gradient_norms" in row


def draw_gradient_norms(
    steps: np.ndarray, parts: Sequence[str], norms: np.ndarray
) -> "Figure":
    """Draws norms as colors on a logarithmic scale; a norm of 0 stays empty.

    Args:
        steps: `(n,)`, ascending.
        parts: Names of the rows, from the top.
        norms: `(parts, n)`, of which one at least is above 0.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    columns = np.array_split(np.arange(len(steps)), min(len(steps), _MOST_COLUMNS))
    shown = np.stack([_column(norms[:, of]) for of in columns], axis=1)
    figure = Figure(
        figsize=(7.6, 1.1 + 0.22 * max(len(parts), 3)), layout="constrained"
    )
    axes = figure.subplots()
    positive = shown[shown > 0]
    least, most = float(positive.min()), float(positive.max())
    if least == most:  # a scale has two ends
        least, most = least / 2, most * 2
    # Up to the first step of the next line, of which each color is the mean.
    first = int(steps[0] - (steps[1] - steps[0] if len(steps) > 1 else 1))
    image = axes.imshow(
        np.ma.masked_invalid(np.where(shown > 0, shown, np.nan)),
        _COLORS,
        norm=LogNorm(least, most),
        aspect="auto",
        interpolation="nearest",
        extent=(first, int(steps[-1]), len(parts) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(parts)), [part.replace("_", " ") for part in parts])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    scale = figure.colorbar(image, label="norm")
    scale.outline.set_edgecolor(GRAY)
    for one in (axes, scale.ax):
        one.tick_params(which="both", color=GRAY)
        one.spines[:].set_color(GRAY)
    return figure


def _column(norms: np.ndarray) -> np.ndarray:
    """Means of the norms of some lines, `(parts,)`; NaN where a part has none."""
    counts = np.isfinite(norms).sum(axis=1)
    sums = np.nansum(norms, axis=1)
    return np.divide(sums, counts, out=np.full(len(norms), np.nan), where=counts > 0)
