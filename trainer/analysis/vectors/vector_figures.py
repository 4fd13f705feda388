"""Figures of vectors: geometry against depth, words in contexts, a map of pieces."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.model.inspect.vector_geometry import PrincipalComponents
from transbeam.pipeline.pages.pictures import COLORS, GRAY, new_figure
from transbeam.trainer.analysis.base.piece_labels import make_label
from transbeam.trainer.analysis.vectors.layer_geometry import GeometryMeasure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVES = {
    "anisotropy": "anisotropy (random occurrences)",
    "self_similarity": "a piece's occurrences, less anisotropy",
    "text_similarity": "a text's tokens and their mean, less anisotropy",
    "explainable_variance": "explainable variance, less baseline",
}
_PANELS = 8


def draw_geometry(measures: Sequence[GeometryMeasure]) -> "Figure":
    """Draws the measures of similarity against depth, less their baselines."""
    figure, axes = new_figure(3.0)
    for color, (name, label) in zip(COLORS, _CURVES.items(), strict=False):
        chosen = [measure for measure in measures if measure.measure == name]
        if not chosen:
            continue
        bases = np.nan_to_num([measure.baseline for measure in chosen])
        value, low, high = np.array([x.value for x in chosen]).T - bases
        depth = np.arange(len(value))
        axes.fill_between(depth, low, high, color=color, alpha=0.2, linewidth=0)
        axes.plot(depth, value, color=color, marker="o", markersize=3, label=label)
    axes.axhline(0, color=GRAY, linewidth=0.8)
    axes.set_xlabel("layer; 0 is the embeddings")
    axes.legend(frameon=False, fontsize=7)
    return figure


def draw_words(similarities: Mapping[str, np.ndarray]) -> "Figure":
    """Draws the self-similarity of words, less the anisotropy, against depth.

    Args:
        similarities: float (L,) by word.
    """
    figure, axes = new_figure(2.8)
    for color, (word, values) in zip(COLORS, similarities.items(), strict=False):
        label = make_label(word).replace("$", r"\$")
        axes.plot(values, color=color, marker="o", markersize=3, label=label)
    axes.axhline(0, color=GRAY, linewidth=0.8)
    axes.set_xlabel("layer; 0 is the embeddings")
    axes.set_ylabel("self-similarity, less anisotropy")
    axes.legend(frameon=False, fontsize=7)
    return figure


def draw_contexts(
    word: str, layers: Sequence[str], pictures: Sequence[PrincipalComponents]
) -> "Figure":
    """Draws the occurrences of a word in up to eight layers, each by its own PCA.

    Args:
        word: The word.
        layers: Names of all layers.
        pictures: The first two components of its occurrences in each layer.
    """
    from matplotlib.figure import Figure

    count = min(_PANELS, len(layers))
    chosen = np.unique(np.round(np.linspace(0, len(layers) - 1, count)).astype(int))
    rows = -(-len(chosen) // 4)
    figure = Figure(figsize=(7.6, 0.4 + 1.9 * rows), layout="constrained")
    for place, layer in enumerate(chosen, 1):
        axes = figure.add_subplot(rows, min(4, len(chosen)), place)
        coordinates, shares = pictures[layer]
        numbers = np.arange(len(coordinates))
        axes.scatter(*coordinates.T, c=numbers, cmap="viridis", s=12)
        for number, point in zip(numbers, coordinates, strict=True):
            axes.annotate(str(number), point, fontsize=5)
        axes.set_title(f"{layers[layer]} ({shares.sum():.0%})", size=7)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.15)
    figure.suptitle(make_label(word), size=9, parse_math=False)
    return figure


def draw_pieces(labels: Sequence[str], picture: PrincipalComponents) -> "Figure":
    """Draws pieces at the first two components of their embeddings."""
    figure, axes = new_figure(5.0)
    axes.plot(*picture.coordinates.T, ".", color=GRAY, markersize=2)
    for label, point in zip(labels, picture.coordinates, strict=True):
        axes.annotate(label, point, fontsize=6, parse_math=False)
    first, second = picture.shares
    axes.set_xlabel(f"first component, {first:.1%} of the variance")
    axes.set_ylabel(f"second component, {second:.1%}")
    return figure
