"""Weights of a quantized file, and their error."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from transbeam.pipeline.runtimes.litert_interpreter import TFLiteRunner
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import unpacked


def off(source: bytes, made: bytes, question: Mapping[str, np.ndarray]) -> float:
    """By how much `logits` of the signature `each` differ, of their size (RMS)."""
    expected, found = (
        TFLiteRunner(content).run("each", **question)["logits"]
        for content in (source, made)
    )
    return float(np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)))


def weights_in_4_bits(file: Path) -> set[tuple[bytes, bytes]]:
    """The 4-bit weights of a file: the bytes, and the scales of each row."""
    model = unpacked(file.read_bytes())
    return {
        (
            model.buffers[tensor.buffer].data.tobytes(),
            tensor.quantization.scale.tobytes(),
        )
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.type == schema.TensorType.INT4
    }
