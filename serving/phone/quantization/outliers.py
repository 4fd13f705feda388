"""Which feed-forward layers have numbers that eight bits of one range cannot hold."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from transbeam.serving.phone.tflite_format.tflite_flatbuffer import unpacked

# Questions of each signature that are looked at.
_LOOKED_AT = 8
# The path of such a layer, with which the names begin of what it computes.
_LAYER = re.compile(r"[^;]*?\bfeedforward(_\d+)?(?=/)")
# Of a step's length, what rounding is off by.
_OFF = 1 / np.sqrt(12)
_STEPS = 255


def coarse_layers(
    content: bytes,
    calibration: Mapping[str, Sequence[Mapping[str, np.ndarray]]],
    most: float = 0.05,
) -> list[str]:
    """The feed-forward layers that fixed ranges of eight bits would blur.

    Trained Transformers write a few numbers that are a hundred times as large as the
    others, and first of all in these layers (Bondarenko et al., 2021,
    https://arxiv.org/abs/2109.12948). 256 steps that reach so far are too long for the
    others.

    Args:
        content: The file in float32.
        calibration: Inputs of each signature.
        most: What rounding may be off by, of the root mean square of the channel in
            the middle: neither outlying tokens nor outlying channels make it larger.

    Returns:
        Their paths, with which the names of their tensors begin.
    """
    found: dict[tuple[str, int, int], _Spread] = defaultdict(_Spread)
    interpreter = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    model = unpacked(content)
    for signature in model.signatureDefs:
        name, graph = signature.signatureKey.decode(), signature.subgraphIndex
        runner = interpreter.get_signature_runner(name)
        computed = _computed(model.subgraphs[graph])
        for question in calibration[name][:_LOOKED_AT]:
            runner(**question)
            for index, layer in computed.items():
                value = interpreter.get_tensor(index, graph)
                found[layer, graph, index].add(value)
    return sorted({layer for (layer, *_), of in found.items() if of.noise > most})


def _computed(graph: Any) -> dict[int, str]:
    """The layers of the tensors that feed-forward layers compute."""
    found = {}
    for operator in graph.operators:
        for index in operator.outputs:
            tensor = graph.tensors[index]
            layer = _LAYER.match(tensor.name.decode())
            if layer and _has_channels(tensor):
                found[int(index)] = layer[0]
    return found


def _has_channels(tensor: Any) -> bool:
    """Whether it is a vector of one width for each token, of whatever text."""
    sizes = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
    of_floats = tensor.type == schema.TensorType.FLOAT32
    return of_floats and len(sizes) > 1 and sizes[-1] > 0


class _Spread:
    """How far some numbers reach, and how large those of a usual channel are."""

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
        """What rounding to eight bits is off by, of the usual size."""
        size = float(np.median(np.sqrt(self.squares / self.tokens)))
        return (self.largest - self.smallest) / _STEPS * _OFF / max(size, 1e-30)
