"""Reads the signatures of a TFLite file and formats them as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from transbeam.configs.system.native_output import output_on_error
from transbeam.pipeline.runtimes.litert_interpreter import load_interpreter

# The inputs made from a text, in the order of the table.
ROW = ("token_ids", "padding_mask", "segment_ids")


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a signature.

    Attributes:
        name: Its name.
        dtype: Its dtype.
        shape: The shape in the file.
        signs: The shape with -1 for resizable axes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    signs: tuple[int, ...]

    @property
    def description(self) -> str:
        """The dtype and shape as text, such as `int32 (1, T)`."""
        sizes = ["T" if sign < 0 else str(sign) for sign in self.signs]
        return f"{self.dtype} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


@dataclass(frozen=True)
class TFLiteSignatureEntry:
    """The inputs and outputs of a signature, by name."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


def read_signatures(file: Path) -> dict[str, TFLiteSignatureEntry]:
    """Reads the signatures of a TFLite file.

    Raises:
        ArtifactError: The file is not a TFLite model.
    """
    interpreter = load_interpreter(file)
    with output_on_error():
        return {
            name: _signature(interpreter.get_signature_runner(name))
            for name in interpreter.get_signature_list()
        }


def _signature(runner: Any) -> TFLiteSignatureEntry:
    def tensors(details: Mapping[str, Any]) -> dict[str, Tensor]:
        return {
            name: Tensor(
                name,
                np.dtype(of["dtype"]).name,
                tuple(map(int, of["shape"])),
                tuple(map(int, of["shape_signature"])),
            )
            for name, of in details.items()
        }

    return TFLiteSignatureEntry(
        tensors(runner.get_input_details()), tensors(runner.get_output_details())
    )


def signature_table(signatures: Mapping[str, TFLiteSignatureEntry]) -> str:
    """Formats the inputs and outputs of each signature as Markdown."""

    def listed(tensors: Mapping[str, Tensor]) -> str:
        """Groups tensors whose names differ only in a number, such as caches."""
        alike = groupby(
            sorted(tensors.values(), key=lambda of: _order(of.name)),
            key=lambda of: (of.name.rstrip("0123456789"), of.description),
        )
        cells = []
        for (_, shape), group in alike:
            names = [f"`{of.name}`" for of in group]
            name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            cells.append(f"{name} {shape}")
        return "<br>".join(cells)

    rows = [
        (f"`{name}`", listed(of.inputs), listed(of.outputs))
        for name, of in signatures.items()
    ]
    return table(("signature", "takes", "gives"), rows)


def _order(name: str) -> tuple[int, str, int]:
    """Sort key: token rows and masks first, then by name, with `x_2` before `x_10`.

    Example:
    >>> sorted(["x_10", "x_2", "padding_mask", "token_ids"], key=_order)
    ['token_ids', 'padding_mask', 'x_2', 'x_10']
    """
    word = name.rstrip("0123456789")
    rank = ROW.index(name) if name in ROW else len(ROW)
    return rank, word, int(name[len(word) :] or 0)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
