"""Figures of circuits: composition between heads, and contributions to a logit."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.pipeline.pages.pictures import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BARS = 24
# Zero is white; negative numbers are purple, positive ones orange.
_SIGNED = "PuOr_r"


def draw_composition(
    scores: Mapping[str, np.ndarray], layers: Sequence[str], sizes: Sequence[int]
) -> "Figure":
    """Draws composition scores of all pairs of heads, earlier to later.

    Args:
        scores: `(heads, heads)` by kind: rows write, columns read; NaN where the row's
            layer is not the earlier one.
        layers: Labels of the layers.
        sizes: The number of heads of each layer.

    Example:
    >>> scores = np.array([[np.nan, 0.1], [np.nan, np.nan]])
    >>> figure = draw_composition({"q": scores}, ["0", "1"], [1, 1])
    >>> figure.axes[0].get_title()
    'Q-composition'
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 2.8), layout="constrained")
    panels = figure.subplots(1, len(scores), squeeze=False)[0]
    values = np.concatenate([np.ravel(x) for x in scores.values()])
    limit = np.nanmax(np.abs(values)) or 1.0
    ends = np.cumsum(sizes)
    centers = ends - np.array(sizes) / 2 - 0.5
    for axes, (kind, score) in zip(panels, scores.items(), strict=True):
        image = axes.imshow(score, _SIGNED, vmin=-limit, vmax=limit)
        axes.set_title(f"{kind.upper()}-composition", size=9)
        axes.set_xticks(centers, layers, size=7)
        axes.set_yticks(centers, layers, size=7)
        for end in ends[:-1]:
            axes.axhline(end - 0.5, color="gray", linewidth=0.4)
            axes.axvline(end - 0.5, color="gray", linewidth=0.4)
    panels[0].set_ylabel("layer that writes", size=9)
    figure.supxlabel("layer that reads", size=9)
    figure.colorbar(image, ax=list(panels), label="above unrelated heads", shrink=0.8)
    return figure


def draw_contributions(
    labels: Sequence[str], contributions: np.ndarray, meaning: str
) -> "Figure":
    """Draws the largest contributions to a logit, the others as one bar.

    Args:
        labels: Labels of the parts, in the order of their computation.
        contributions: `(parts,)`.
        meaning: Description of the logit.

    Example:
    >>> figure = draw_contributions(["a", "b"], np.array([1.0, -2.0]), "logit")
    >>> len(figure.axes[0].patches)
    2
    """
    from matplotlib.figure import Figure

    largest = np.argsort(-np.abs(contributions), kind="stable")
    shown, others = np.sort(largest[:_BARS]), largest[_BARS:]
    names: list[str] = [labels[int(index)] for index in shown]
    values = contributions[shown]
    if len(others):
        names.append(f"{len(others)} others")
        values = np.append(values, contributions[others].sum())
    figure = Figure(figsize=(7.6, 1.2 + 0.2 * len(names)), layout="constrained")
    axes = figure.subplots()
    colors = [COLORS[0] if value >= 0 else COLORS[1] for value in values]
    axes.barh(range(len(names)), values, color=colors)
    axes.set_yticks(range(len(names)), names, size=7)
    axes.set_ylim(len(names) - 0.4, -0.6)  # the first one is at the top
    axes.axvline(0, color="gray", linewidth=0.6)
    axes.set_xlabel(meaning, parse_math=False)
    return figure
