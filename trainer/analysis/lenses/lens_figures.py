"""Figures of lenses: predictions of each layer, and their divergence by depth."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.pipeline.pages.pictures import COLORS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_predictions(
    labels: Sequence[Sequence[str]],
    probabilities: np.ndarray,
    layers: Sequence[str],
    tokens: Sequence[str],
) -> "Figure":
    """Draws the most probable token of each layer and position in a table.

    Args:
        labels: Labels of the predicted tokens, for each layer one for each position.
        probabilities: `(layers, positions)`, the cells' colors.
        layers: Names of the layers, from the bottom.
        tokens: Labels of the tokens at the positions.

    Example:
    >>> figure = draw_predictions([["a"], ["b"]], np.ones((2, 1)), ["0", "1"], ["x"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['a', 'b']
    """
    from matplotlib.figure import Figure

    height = 1.6 + 0.3 * len(layers)
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(
        probabilities, "Blues", vmin=0, vmax=1, aspect="auto", origin="lower"
    )
    for row, cells in enumerate(labels):
        for column, label in enumerate(cells):
            is_dark = probabilities[row, column] > 0.6
            axes.text(
                column,
                row,
                label,
                ha="center",
                va="center",
                size=6,
                color="white" if is_dark else "black",
                parse_math=False,
            )
    axes.set_yticks(range(len(layers)), layers, size=7)
    axes.set_xticks(
        range(len(tokens)), tokens, size=7, rotation=60, ha="right", parse_math=False
    )
    figure.colorbar(image, label="probability")
    return figure


def draw_divergences(
    curves: Mapping[str, np.ndarray], layers: Sequence[str]
) -> "Figure":
    """Draws the divergence from the model's prediction against depth.

    Args:
        curves: A value for each layer, by the name of the lens.
        layers: Names of the layers.

    Example:
    >>> figure = draw_divergences({"logit lens": np.array([2.0, 0.0])}, ["0", "1"])
    >>> figure.axes[0].get_ylabel()
    'divergence (nats)'
    """
    figure, axes = new_figure(2.8)
    for color, (name, values) in zip(COLORS, curves.items(), strict=False):
        axes.plot(range(len(values)), values, color=color, marker="o", label=name)
    axes.set_xticks(range(len(layers)), layers, rotation=30, ha="right", size=7)
    axes.set_ylabel("divergence (nats)")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return figure
