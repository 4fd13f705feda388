"""Serializes arrays as `tf.train.Example`s, and parses them.

All records of a document part are encoded at once: the wire format of Protocol Buffers
is built as columns of bytes, one row per record, and the columns that a row does not
use (a small number needs fewer bytes than a large one) are removed at the end. The
bytes equal those of Python's protobuf library with sorted keys, at a fraction of its
time.

References:
    - [Encoding](https://protobuf.dev/programming-guides/encoding/)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from transbeam.pipeline.records.features import Feature, check_arrays

# Field numbers and wire types: all fields are length-delimited.
_EXAMPLE_FEATURES = 0x0A
_MAP_ENTRY = 0x0A
_MAP_KEY = 0x0A
_MAP_VALUE = 0x12
_LISTS = {"uint8": 0x0A, "float32": 0x12, "int32": 0x1A}  # bytes, float, int64 list
_LIST_VALUES = 0x0A


def encode_records(
    arrays: Mapping[str, np.ndarray], features: Sequence[Feature]
) -> list[bytes]:
    """Serializes one Example per row of the arrays, which must match the features."""
    check_arrays(arrays, features)
    entries: list[_Columns] = []
    for feature in sorted(features, key=lambda feature: feature.name):
        rows = arrays[feature.name].reshape(-1, math.prod(feature.shape))
        values = _wrapped(_LIST_VALUES, _values(rows, feature.dtype))
        value = _wrapped(_MAP_VALUE, _wrapped(_LISTS[feature.dtype], values))
        key = _constant(len(rows), _delimited(_MAP_KEY, feature.name.encode()))
        entries.append(_wrapped(_MAP_ENTRY, _beside(key, value)))
    return _wrapped(_EXAMPLE_FEATURES, _beside(*entries)).rows()


@dataclass(frozen=True)
class _Columns:
    """Rows of bytes of different lengths, stored as columns.

    Attributes:
        blocks: The columns in order: uint8 (rows, width), and a mask of the same shape,
            True for bytes that belong to the row, or None if all bytes belong to it.
        lengths: int64 (rows,). The number of bytes of each row.
    """

    blocks: list[tuple[np.ndarray, np.ndarray | None]]
    lengths: np.ndarray

    def rows(self) -> list[bytes]:
        content = np.concatenate([block for block, _ in self.blocks], axis=1)
        used = np.ones(content.shape, np.bool_)
        column = 0
        for block, mask in self.blocks:
            if mask is not None:
                used[:, column : column + block.shape[1]] = mask
            column += block.shape[1]
        flat = content[used].tobytes()
        edges = [0, *np.cumsum(self.lengths).tolist()]
        return [flat[start:end] for start, end in pairwise(edges)]


def _beside(*parts: _Columns) -> _Columns:
    return _Columns(
        [block for part in parts for block in part.blocks],
        np.sum([part.lengths for part in parts], axis=0),
    )


def _wrapped(tag: int, content: _Columns) -> _Columns:
    """Prepends the tag and the length to the content."""
    rows = len(content.lengths)
    length = _varints(content.lengths[:, np.newaxis])
    return _beside(_constant(rows, bytes([tag])), length, content)


def _delimited(tag: int, content: bytes) -> bytes:
    if len(content) > 127:
        raise ValueError(f"{content!r}: the name of a feature has at most 127 bytes")
    return bytes([tag, len(content)]) + content


def _constant(rows: int, content: bytes) -> _Columns:
    row = np.frombuffer(content, np.uint8)
    return _all_used(np.broadcast_to(row, (rows, len(row))))


def _all_used(content: np.ndarray) -> _Columns:
    rows, width = content.shape
    return _Columns([(content, None)], np.full(rows, width))


def _values(rows: np.ndarray, dtype: str) -> _Columns:
    match dtype:
        case "int32":
            return _varints(rows)
        case "float32":
            return _all_used(rows.astype("<f4").view(np.uint8))
        case _:
            return _all_used(rows)


def _varints(numbers: np.ndarray) -> _Columns:
    """Encodes numbers as varints: groups of seven bits, the lowest first.

    A negative number is encoded as its 64-bit two's complement, ten bytes long.
    """
    rows, count = numbers.shape
    largest, smallest = int(numbers.max(initial=0)), int(numbers.min(initial=0))
    if smallest >= 0 and largest < 128:  # one byte each
        return _all_used(numbers.astype(np.uint8))
    # A smaller dtype for small numbers, so that the loop below moves fewer bytes.
    small = smallest >= 0 and largest < 2**31
    numbers = numbers.astype(np.uint32 if small else np.int64).view(
        np.uint32 if small else np.uint64
    )
    width = 10 if smallest < 0 else -(-largest.bit_length() // 7)
    groups = np.empty((rows, count, width), np.uint8)
    used = np.empty((rows, count, width), np.bool_)
    rest = numbers
    for place in range(width):
        used[..., place] = True if place == 0 else rest != 0
        following = rest >> numbers.dtype.type(7)
        low = (rest & numbers.dtype.type(127)).astype(np.uint8)
        groups[..., place] = low | ((following != 0).astype(np.uint8) << np.uint8(7))
        rest = following
    used = used.reshape(rows, -1)
    lengths = used.sum(axis=1, dtype=np.int64)
    return _Columns([(groups.reshape(rows, -1), used)], lengths)


def parse_records(serialized: tf.Tensor, features: Sequence[Feature]) -> dict[str, Any]:
    """Parses a batch of Examples to tensors (batch, *shape) of the features' dtypes."""
    stored = {"int32": tf.int64, "float32": tf.float32}
    parsed = tf.io.parse_example(
        serialized,
        {
            f.name: tf.io.FixedLenFeature([], tf.string)
            if f.dtype == "uint8"
            else tf.io.FixedLenFeature(f.shape, stored[f.dtype])
            for f in features
        },
    )
    return {f.name: _as_contracted(parsed[f.name], f) for f in features}


def _as_contracted(value: Any, feature: Feature) -> Any:
    if feature.dtype == "uint8":
        flat = tf.io.decode_raw(value, tf.uint8)
        return tf.reshape(flat, (-1, *feature.shape))
    return tf.cast(value, feature.dtype)
