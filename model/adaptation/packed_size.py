"""Sizes of a pruned model's weights in files: dense, as bits and values, and gzip."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# gzip's own default.
_LEVEL = 6
_AT_ONCE = 2**22


@dataclass(frozen=True)
class PackedSize:
    """Bytes of the weights of a model, all of them, in several forms.

    Attributes:
        dense: Every number, as in safetensors and in the variables of a SavedModel.
        bitmask: For each weight one bit per number, and the numbers that are not zero;
            or all numbers where that is less.
        gzip: The dense form, compressed by gzip.
    """

    dense: int
    bitmask: int
    gzip: int


def measure_packed_size(
    weights: Mapping[str, np.ndarray], advance: Callable[[float], None] = lambda _: None
) -> PackedSize:
    """Measures how small the weights of a model are in a packed file.

    Args:
        weights: All weights of the model, by path.
        advance: Called with numbers of bytes as they are compressed.

    Example:
    >>> kernel = np.zeros((100, 8), "float32")
    >>> kernel[:25] = np.arange(1, 201).reshape(25, 8)
    >>> size = measure_packed_size({"kernel": kernel, "bias": np.ones(8, "float32")})
    >>> size.dense, size.bitmask
    (3232, 932)
    """
    dense = bitmask = 0
    compress, gzip = zlib.compressobj(_LEVEL, wbits=31), 0
    for values in weights.values():
        nonzero = int(np.count_nonzero(values)) * values.itemsize
        dense += values.nbytes
        bitmask += min(-(-values.size // 8) + nonzero, values.nbytes)
        data: Any = np.ascontiguousarray(values).reshape(-1).view("uint8")
        for begin in range(0, len(data), _AT_ONCE):
            part = data[begin : begin + _AT_ONCE]
            gzip += len(compress.compress(part))
            advance(len(part))
    return PackedSize(dense, bitmask, gzip + len(compress.flush()))
