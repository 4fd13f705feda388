"""Finds feed-forward layers with activation outliers too large for static int8."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from transbeam.serving.phone.tflite_format.tflite_flatbuffer import (
    run_with_tensors,
    unpacked,
)

# The number of calibration inputs per signature.
_LOOKED_AT = 8
# The path of a feed-forward layer, the prefix of its tensors' names.
_LAYER = re.compile(r"[^;]*?\bfeedforward(_\d+)?(?=/)")
# RMS rounding error relative to the step.
_OFF = 1 / np.sqrt(12)
_STEPS = 255


def coarse_layers(
    content: bytes,
    calibration: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    most: float = 0.05,
) -> list[str]:
    """Returns the feed-forward layers that static int8 ranges would degrade.

    Trained Transformers have a few activations that are a hundred times as large as all
    other activations, above all in feed-forward layers (Bondarenko et al., 2021,
    https://arxiv.org/abs/2109.12948). The 256 steps of a range with such outliers are
    too coarse for all other activations.

    Args:
        content: The content of the float32 TFLite file.
        calibration: Calibration inputs of each signature.
        most: The maximum rounding error, relative to the RMS of the median channel;
            outlying tokens and channels hardly affect this RMS.

    Returns:
        The paths of the degraded layers; a path is the prefix of the names of a layer's
        tensors.
    """
    found: dict[tuple[str, int, int], _Spread] = defaultdict(_Spread)
    computed = [_computed(graph) for graph in unpacked(content).subgraphs]
    some = {name: inputs[:_LOOKED_AT] for name, inputs in calibration.items()}
    for graph, read_tensor in run_with_tensors(content, some):
        for index, layer in computed[graph].items():
            found[layer, graph, index].add(read_tensor(index))
    return sorted({layer for (layer, *_), of in found.items() if of.noise > most})


def _computed(graph: Any) -> dict[int, str]:
    """Returns the output tensors of feed-forward layers, with the layers' paths."""
    found = {}
    for operator in graph.operators:
        for index in operator.outputs:
            tensor = graph.tensors[index]
            layer = _LAYER.match(tensor.name.decode())
            if layer and _has_channels(tensor):
                found[int(index)] = layer[0]
    return found


def _has_channels(tensor: Any) -> bool:
    """Returns whether a tensor is a float vector of fixed width per token."""
    sizes = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
    of_floats = tensor.type == schema.TensorType.FLOAT32
    return of_floats and len(sizes) > 1 and sizes[-1] > 0


class _Spread:
    """The range of a tensor's values, and the RMS of its channels."""

    def __init__(self):
        self.smallest = self.largest = 0.0
        self.squares = np.zeros(())
        self.tokens = 0

    def add(self, value: np.ndarray) -> None:
        rows = value.reshape(-1, value.shape[-1]).astype(np.float64)
        self.smallest = min(self.smallest, float(rows.min()))
        self.largest = max(self.largest, float(rows.max()))
        self.squares = self.squares + np.square(rows).sum(axis=0)
        self.tokens += len(rows)

    @property
    def noise(self) -> float:
        """The int8 rounding error, relative to the RMS of the median channel."""
        size = float(np.median(np.sqrt(self.squares / self.tokens)))
        return (self.largest - self.smallest) / _STEPS * _OFF / max(size, 1e-30)
