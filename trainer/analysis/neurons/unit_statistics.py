"""Statistics of all feed-forward units of a model over all texts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from transbeam.model.base.activation_hooks import recorded
from transbeam.model.inspect.neurons import (
    UNITS,
    TopTexts,
    feedforward_layers,
    measure_units,
)
from transbeam.trainer.analysis.base.analysis_context import AnalysisContext, TextBatch
from transbeam.trainer.analysis.base.free_shapes import trace_free


@dataclass
class LayerUnits:
    """The units of a layer, over all texts.

    Attributes:
        top: The texts that activate each unit most.
        total: float64 (I,). Sum of the activations.
        squares: float64 (I,). Sum of their squares.
        active: float64 (I,). The number of tokens with an activation above 0.
        tokens: Number of tokens.
        shares: float64 (texts, 2). For each text, the sum over its tokens of the share
            of units that are active, and the number of its tokens.
    """

    top: TopTexts
    total: np.ndarray
    squares: np.ndarray
    active: np.ndarray
    tokens: float
    shares: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """The mean activation of each unit, float64 (I,)."""
        return self.total / max(self.tokens, 1.0)

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each unit's activation, float64 (I,)."""
        squares = self.squares / max(self.tokens, 1.0)
        return np.sqrt(np.maximum(squares - self.means**2, 0.0))

    @property
    def strengths(self) -> np.ndarray:
        """Mean of the largest activations, in standard deviations above the mean."""
        there = np.isfinite(self.top.activations)
        largest = np.where(there, self.top.activations, 0.0).sum(axis=1)
        largest = largest / np.maximum(there.sum(axis=1), 1)
        deviations = self.deviations
        above = np.where(there.any(axis=1), largest - self.means, 0.0)
        return np.where(
            deviations > 0, above / np.where(deviations > 0, deviations, 1), 0
        )


def collect_units(context: AnalysisContext, k: int) -> dict[str, LayerUnits]:
    """Measures the units of all layers, reading each text once.

    Special tokens do not count. Memory does not depend on the number of texts, but for
    two numbers per text and layer.

    Args:
        context: The model and the texts.
        k: Number of texts that are kept for each unit.

    Returns:
        The layers by path.
    """
    model, layers = context.model, feedforward_layers(context.model)

    def compute(inputs, counted):
        with recorded(f"/{UNITS}") as units:
            model(inputs, training=False)
        return {
            path: measure_units(units[f"{path}/{UNITS}"], counted[_side(path)])
            for path in layers
        }

    found = {
        path: _empty(layer.intermediate_dim, k, len(context.texts))
        for path, layer in layers.items()
    }
    measure = None
    with context.console.progress("units", len(context.texts), "text") as bar:
        for batch in context.batches():
            counted = _find_counted(context, batch)
            measure = measure or trace_free(compute, batch.inputs, counted)
            for path, statistics in measure(batch.inputs, counted).items():
                _add(found[path], batch.index, statistics)
            bar.advance(len(batch.index))
    return found


def is_decoder(path: str) -> bool:
    """Checks if a layer is of a decoder."""
    return path.startswith("decoder")


def _side(path: str) -> str:
    return "decoder" if is_decoder(path) else "encoder"


def _find_counted(context: AnalysisContext, batch: TextBatch) -> dict[str, np.ndarray]:
    """Finds the ordinary tokens of a batch, for encoder and decoder: bool (B, T)."""
    counted = {}
    for side in ("encoder", "decoder"):
        prefix = f"{side}_" if f"{side}_token_ids" in batch.inputs else ""
        ids = batch.inputs[f"{prefix}token_ids"]
        real = batch.inputs[f"{prefix}padding_mask"] != 0
        counted[side] = np.isin(ids, context.tokenizer.ordinary_ids) & real
    return counted


def _empty(units: int, k: int, texts: int) -> LayerUnits:
    return LayerUnits(
        top=TopTexts(units, k),
        total=np.zeros(units),
        squares=np.zeros(units),
        active=np.zeros(units),
        tokens=0.0,
        shares=np.zeros((texts, 2)),
    )


def _add(layer: LayerUnits, index: np.ndarray, statistics: Any) -> None:
    found = type(statistics)(*(value.numpy() for value in statistics))
    layer.top.update(index, found.maximum, found.position)
    layer.total += found.total
    layer.squares += found.squares
    layer.active += found.active
    layer.tokens += float(found.tokens.sum())
    layer.shares[index, 0] = found.active_share * found.tokens
    layer.shares[index, 1] = found.tokens
