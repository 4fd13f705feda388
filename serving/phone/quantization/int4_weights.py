"""Quantizes the weights of a TFLite file to 4 bits, with GPTQ.

Errors of an embedding row cannot be compensated by other rows, so embedding tables are
rounded without GPTQ, even if an output head shares the table.
"""

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from transbeam.configs.cli.arguments import usable_cores
from transbeam.configs.cli.console import Console
from transbeam.serving.phone.quantization.gptq import gptq, round_rows
from transbeam.serving.phone.tflite_format.tflite_flatbuffer import (
    operators,
    run_with_tensors,
    unpacked,
)

# Calibration inputs of each signature, of batch size 1.
Questions = Mapping[str, Sequence[Mapping[str, np.ndarray]]]


class Rounded(NamedTuple):
    """4-bit weights: integers from -7 to 7, int8 (rows, n), and a scale per row."""

    numbers: np.ndarray
    scales: np.ndarray


# By the hash of the float32 weights, so that they are found in every file of a model,
# whatever its signatures are.
RoundedWeights = Mapping[bytes, Rounded]
NONE_ROUNDED: RoundedWeights = MappingProxyType({})

# The input of a matrix product: the indices of its subgraph and its tensor.
_ProductInput = tuple[int, int]


def round_weights(
    content: bytes, questions: Questions, console: Console
) -> RoundedWeights:
    """Quantizes the weight matrices and embedding tables of a model to 4 bits.

    Args:
        content: The content of the float32 TFLite file.
        questions: Calibration inputs; texts without padding, because padding would
            distort the second moments.
        console: Shows the progress.
    """
    model = unpacked(content)
    tables = {
        _digest(buffer): _floats(buffer, shape)
        for _, buffer, shape in _constants(model, "EMBEDDING_LOOKUP")
    }
    weights, groups = _products(model, tables)
    moments = _moments(content, model, groups, questions, console)
    found = {}
    total = len(weights) + len(tables)
    with console.progress("rounding", total, "weights") as bar:
        for digest, table in tables.items():
            found[digest] = Rounded(*round_rows(table))
            bar.advance()
        for used_inputs, digests in groups.items():
            # Rows are quantized independently, so matrices can be concatenated.
            rows = [weights[digest] for digest in digests]
            numbers, scales = gptq(np.concatenate(rows), moments.pop(used_inputs))
            ends = np.cumsum([len(each) for each in rows])[:-1]
            parts = zip(np.split(numbers, ends), np.split(scales, ends), strict=True)
            found |= dict(zip(digests, map(Rounded._make, parts), strict=True))
            bar.advance(len(digests))
    return found


def with_rounded(model: Any, source: Any, weights: RoundedWeights) -> Any:
    """Replaces the weights of a 4-bit model by the results of `round_weights`.

    Args:
        model: Model in the TFLite schema's object API; it is changed in place.
        source: The same model before quantization, in float32.
        weights: The result of `round_weights` for `source`, or for another file with
            the same weights.
    """
    for ours, theirs in zip(model.subgraphs, source.subgraphs, strict=True):
        known = {each.name: source.buffers[each.buffer] for each in theirs.tensors}
        for tensor in ours.tensors:
            if tensor.type != schema.TensorType.INT4 or tensor.name not in known:
                continue
            rounded = weights.get(_digest(known[tensor.name]))
            if rounded is not None:
                tensor.quantization.scale = rounded.scales
                model.buffers[tensor.buffer].data = _in_4_bits(rounded.numbers)
    return model


def _products(
    model: Any, tables: Container[bytes]
) -> tuple[dict[bytes, np.ndarray], dict[tuple[_ProductInput, ...], list[bytes]]]:
    """Returns weight matrices by hash, and groups of matrices with the same inputs."""
    weights: dict[bytes, np.ndarray] = {}
    used_inputs: dict[bytes, set[_ProductInput]] = defaultdict(set)
    for product_input, buffer, shape in _constants(model, "FULLY_CONNECTED"):
        if (digest := _digest(buffer)) not in tables:
            weights[digest] = _floats(buffer, shape)
            used_inputs[digest].add(product_input)
    groups: dict[tuple[_ProductInput, ...], list[bytes]] = defaultdict(list)
    for digest, of in used_inputs.items():
        groups[tuple(sorted(of))].append(digest)
    return weights, groups


def _constants(
    model: Any, name: str
) -> Iterator[tuple[_ProductInput, Any, Sequence[int]]]:
    """Yields the input and the constant second operand of all ops of a kind."""
    for number, graph, operator in operators(model, name):
        first, second, *_ = operator.inputs
        tensor = graph.tensors[second]
        buffer = model.buffers[tensor.buffer]
        if buffer.data is not None and len(buffer.data):
            yield (number, int(first)), buffer, tensor.shape


def _moments(
    content: bytes,
    model: Any,
    groups: Iterable[tuple[_ProductInput, ...]],
    questions: Questions,
    console: Console,
) -> dict[tuple[_ProductInput, ...], np.ndarray]:
    """Computes the second moments of each group's inputs, float32 (n, n)."""
    sums: dict[tuple[_ProductInput, ...], Any] = dict.fromkeys(groups, 0.0)
    counts = dict.fromkeys(sums, 0)
    tensors: dict[int, list[tuple[tuple[_ProductInput, ...], int]]] = defaultdict(list)
    for group in sums:
        for graph, tensor in group:
            tensors[graph].append((group, tensor))
    total = sum(
        len(questions[each.signatureKey.decode()]) for each in model.signatureDefs
    )
    runs = run_with_tensors(content, questions, usable_cores())
    with console.progress("asking the model", total, "times") as bar:
        for graph, read_tensor in runs:
            for group, tensor in tensors[graph]:
                value = read_tensor(tensor)
                rows = value.reshape(-1, value.shape[-1])
                sums[group] += rows.T @ rows
                counts[group] += len(rows)
            bar.advance()
    return {group: of / max(counts[group], 1) for group, of in sums.items()}


def _in_4_bits(numbers: np.ndarray) -> np.ndarray:
    """Packs two 4-bit numbers per byte, the first one in the low-order bits."""
    halves = numbers.reshape(-1).view(np.uint8) & 0xF
    if len(halves) % 2:
        halves = np.append(halves, np.uint8(0))
    return halves[::2] | halves[1::2] << 4


def _floats(buffer: Any, shape: Sequence[int]) -> np.ndarray:
    return np.frombuffer(buffer.data, np.float32).reshape(shape)


def _digest(buffer: Any) -> bytes:
    return hashlib.sha256(buffer.data.tobytes()).digest()
