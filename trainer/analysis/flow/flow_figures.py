"""Figures of rollout and flow: heat maps of weights, and Sankey diagrams."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.model.inspect.flow.sankey_links import SankeyLinks
from transbeam.pipeline.pages.pictures import COLORS, GRAY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 7.6
# Points of a link of weight 1.
_WIDEST = 7
_LONGEST_PIECE = 14


def draw_weights(maps: Mapping[str, np.ndarray], tokens: Sequence[str]) -> "Figure":
    """Draws weights between tokens as heat maps side by side.

    Args:
        maps: float (T, T) from queries to keys, by title.
        tokens: The pieces of the text.
    """
    from matplotlib.figure import Figure

    size = 3 + 0.03 * len(tokens)
    figure = Figure(figsize=(_WIDTH, size), layout="constrained")
    labels = [_escape(token) for token in tokens]
    font = float(np.clip(160 / len(tokens), 3, 8))
    for axes, (title, weights) in zip(
        figure.subplots(1, len(maps), squeeze=False)[0], maps.items(), strict=True
    ):
        image = axes.imshow(weights, cmap="viridis", vmin=0)
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(len(labels)), labels, fontsize=font, rotation=90)
        axes.set_yticks(range(len(labels)), labels, fontsize=font)
        axes.set_xlabel("input token", fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.7)
    return figure


def draw_sankey(links: SankeyLinks, num_layers: int, tokens: Sequence[str]) -> "Figure":
    """Draws links as curves from layer to layer, wider for larger weights.

    The input is at the left, the last layer at the right; a curve has the color of the
    token that it comes from.

    Args:
        links: The links.
        num_layers: Number of layers.
        tokens: The pieces of the text.
    """
    from matplotlib.figure import Figure

    height = max(2.5, 0.6 + 0.16 * len(tokens))
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    _draw_links(axes, links)
    font = float(np.clip(300 / len(tokens), 4, 8))
    for column, side in ((-0.05, "right"), (num_layers + 0.05, "left")):
        for row, token in enumerate(tokens):
            axes.text(column, row, _escape(token), ha=side, va="center", fontsize=font)
    grid = np.mgrid[: num_layers + 1, : len(tokens)].reshape(2, -1)
    axes.plot(*grid, ".", color=GRAY, markersize=2)
    names = ["input", *(f"layer {layer}" for layer in range(num_layers))]
    axes.set_xticks(range(num_layers + 1), names, fontsize=7, rotation=45)
    axes.set_yticks([])
    axes.set_xlim(-0.8, num_layers + 0.8)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    return figure


def _draw_links(axes: "Axes", links: SankeyLinks) -> None:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    paths = [
        Path([(x, key), (x + 0.5, key), (x + 0.5, query), (x + 1, query)], codes)
        for x, query, key in zip(links.layer, links.query, links.key, strict=True)
    ]
    axes.add_collection(
        PathCollection(
            paths,
            facecolors="none",
            edgecolors=[COLORS[key % len(COLORS)] for key in links.key],
            linewidths=_WIDEST * links.weight,
            alpha=0.6,
            capstyle="butt",
        )
    )


def _escape(token: str) -> str:
    r"""Shortens a piece and keeps matplotlib from reading it as a formula.

    Example:
    >>> _escape("$x$")
    '\\$x\\$'
    """
    if len(token) > _LONGEST_PIECE:
        token = token[: _LONGEST_PIECE - 1] + "\u2026"
    return token.replace("$", r"\$")
