"""Figures of heads: entropy by depth, maps of layers and heads, weights at offsets."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from transbeam.model.inspect.attention_statistics import OFFSETS
from transbeam.pipeline.pages.pictures import COLORS, GRAY, new_figure
from transbeam.trainer.analysis.heads.head_means import (
    HeadMean,
    arrange_by_head,
    find_layers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of the statistics, those of which a map is drawn, with the title.
_MAPS = {
    "entropy_share": "entropy, share of ln keys",
    "confidence_without_end": "confidence, without end",
    "sparsity": "sparsity",
    "distance": "mean distance, tokens",
    "distant": "distant tokens",
    "self": "self",
    "previous": "previous",
    "next": "next",
    "first": "first token",
    "end": "end token",
    "punctuation": "punctuation",
    "rare": "rare",
    "content": "content",
    "induction": "induction",
}
_COLUMNS = 4
_WIDTH = 7.6
_SHOWN_HEADS = 8


def draw_entropy(means: Sequence[HeadMean]) -> "Figure":
    """Draws entropy by depth: each head as a dot, and their mean and range.

    Layers of each stack, and of cross-attention, are a line of their own.
    """
    figure, axes = new_figure(2.8)
    stacks: dict[str, list[np.ndarray]] = {}
    for layer, values in arrange_by_head(means, "entropy").items():
        stacks.setdefault(_name_stack(layer), []).append(values)
    for color, (stack, layers) in zip(COLORS, stacks.items(), strict=False):
        depth = np.arange(len(layers))
        for number, values in enumerate(layers):
            at = np.full(len(values), number)
            axes.plot(at, values, ".", color=color, alpha=0.5, markersize=5)
        low, high = ([f(x) for x in layers] for f in (np.min, np.max))
        axes.fill_between(depth, low, high, color=color, alpha=0.15, linewidth=0)
        axes.plot(depth, [x.mean() for x in layers], color=color, label=stack)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer")
    axes.set_ylabel("entropy, nats")
    if len(stacks) > 1:
        axes.legend(frameon=False)
    return figure


def _name_stack(layer: str) -> str:
    """Names the stack of a layer.

    Example:
    >>> _name_stack("decoder_layer_1/cross_attention")
    'decoder, cross-attention'
    """
    stack = layer.partition("_")[0]
    crosses = layer.endswith("cross_attention")
    return f"{stack}, cross-attention" if crosses else stack


def draw_maps(means: Sequence[HeadMean]) -> "Figure":
    """Draws a map of layers and heads for each of the main statistics."""
    from matplotlib.figure import Figure

    layers = find_layers(means)
    maps = {}
    for metric in _MAPS:
        found = arrange_by_head(means, metric)
        if found:
            maps[metric] = _stack_rows([found.get(x, np.zeros(0)) for x in layers])
    rows = math.ceil(len(maps) / _COLUMNS)
    height = 0.6 + min(max(0.12 * len(layers), 0.9), 4)
    figure = Figure(figsize=(_WIDTH, rows * height), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for panel, (metric, values) in zip(panels, maps.items(), strict=False):
        _draw_map(panel, values, _MAPS[metric])
        if len({_name_stack(layer) for layer in layers}) > 1:
            panel.set_yticks(range(len(layers)), map(_shorten, layers))
    for panel in panels[len(maps) :]:
        panel.set_axis_off()
    return figure


def _shorten(layer: str) -> str:
    """Shortens a layer's path: e and d for the stacks, x for cross-attention.

    Example:
    >>> _shorten("decoder_layer_1/cross_attention")
    'd1x'
    """
    block = layer.partition("/")[0]
    crosses = layer.endswith("cross_attention")
    return block[0] + block.rpartition("_")[2] + ("x" if crosses else "")


def _stack_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Stacks rows of different length, with NaN at their ends."""
    stacked = np.full((len(rows), max(map(len, rows))), np.nan)
    for number, row in enumerate(rows):
        stacked[number, : len(row)] = row
    return stacked


def _draw_map(panel: "Axes", values: np.ndarray, title: str) -> None:
    largest = np.nanmax(values) or 1.0  # no scale goes from 0 to 0
    image = panel.imshow(values, aspect="auto", cmap="cividis", vmin=0, vmax=largest)
    panel.set_title(title, fontsize=7.5)
    panel.set_xlabel("head", fontsize=6.5, labelpad=1)
    panel.set_ylabel("layer", fontsize=6.5, labelpad=1)
    panel.tick_params(labelsize=6, color=GRAY, length=2)
    panel.locator_params(integer=True, min_n_ticks=1, nbins=5)
    bar = panel.figure.colorbar(image, ax=panel, fraction=0.06, pad=0.03)
    bar.ax.tick_params(labelsize=5.5, length=2)
    bar.outline.set_visible(False)


def draw_offsets(means: Sequence[HeadMean]) -> "Figure":
    """Draws the weight at each offset of the heads with the most weight at one."""
    figure, axes = new_figure(2.8)
    profiles: dict[tuple[str, int], dict[int, float]] = {}
    for mean in means:
        if isinstance(mean.metric, int):
            profile = profiles.setdefault((mean.layer, mean.head), {})
            profile[mean.metric] = mean.mean
    heads = sorted(profiles, key=lambda head: -max(profiles[head].values()))
    for color, head in zip(COLORS, heads[:_SHOWN_HEADS], strict=False):
        weights = [profiles[head][offset] for offset in OFFSETS]
        label = f"{head[0].removesuffix('/self_attention')}, head {head[1]}"
        axes.plot(OFFSETS, weights, ".-", color=color, label=label)
    axes.set_xlabel("key's position, relative to the query, tokens")
    axes.set_ylabel("mean weight")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize=7, loc="upper left")
    return figure
