"""Tables that map our weights to the tensors of other libraries.

A table maps the paths of weights to names of tensors, with a transform of each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.model.weights.checkpoints.tensor_transforms import (
    SAME,
    TRANSPOSE,
    Shape,
    Sizes,
    Transform,
)

# A checkpoint may have heads and a pooler that are not needed; a body is read
# completely. The pooler's names have the prefix of the body.
Part = Literal["body", "pooler", "head"]


@dataclass(frozen=True)
class MappingRow:
    """A row of a mapping table; in paths and tensor names `{i}` is a block's index.

    Attributes:
        ours: Path of our weight, or the paths of several weights that correspond to one
            tensor.
        theirs: Name of the tensor in the checkpoint.
        transform: The transform between our weights and the checkpoint's tensor.
        part: The part of the model to which the tensor belongs, such as the backbone or
            head.
    """

    ours: str | tuple[str, ...]
    theirs: str
    transform: Transform = SAME
    part: Part = "body"

    @property
    def paths(self) -> tuple[str, ...]:
        """Returns `ours` as a tuple of paths."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class WeightMapping:
    """A mapping row for one model: `{i}` is replaced by the layer's index.

    Attributes:
        row: The row of the table.
        ours: Paths of our weights.
        ours_shapes: The shapes of our weights.
        theirs: Name of the tensor in the checkpoint.
        shape: The expected shape of the tensor in the checkpoint.
        sizes: Further sizes that the transform needs.
    """

    row: MappingRow
    ours: tuple[str, ...]
    ours_shapes: tuple[Shape, ...]
    theirs: str
    shape: Shape
    sizes: Sizes

    def to_ours(self, tensor: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Converts a tensor of the checkpoint to our weights, by path."""
        arrays = self.row.transform.to_ours(tensor, self.ours_shapes, self.sizes)
        yield from zip(self.ours, arrays, strict=True)

    def to_theirs(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Converts our weights, in the order of `ours`, to the checkpoint's tensor."""
        return self.row.transform.to_theirs(arrays, self.sizes)


def dense(ours: str, theirs: str, part: Part = "body") -> list[MappingRow]:
    """Rows of a dense layer's kernel and bias, in PyTorch's naming and layout.

    Example:
    >>> [row.theirs for row in dense("pooler", "pooler.dense")]
    ['pooler.dense.weight', 'pooler.dense.bias']
    """
    return [
        MappingRow(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSE, part),
        MappingRow(f"{ours}/bias", f"{theirs}.bias", SAME, part),
    ]


def norm(ours: str, theirs: str, part: Part = "body") -> list[MappingRow]:
    """Rows of a norm's scale and shift, in PyTorch's naming.

    Example:
    >>> [row.ours for row in norm("final_norm", "ln_f")]
    ['final_norm/gamma', 'final_norm/beta']
    """
    return [
        MappingRow(f"{ours}/gamma", f"{theirs}.weight", SAME, part),
        MappingRow(f"{ours}/beta", f"{theirs}.bias", SAME, part),
    ]


def link(
    rows: Iterable[MappingRow], shapes: Mapping[str, Shape], sizes: Sizes, where: str
) -> list[WeightMapping]:
    """Applies a table to the weights of a model.

    Rows whose weights the model lacks are skipped: parts that a model does not have
    (biases, segments, a head) are not in its checkpoint.

    Args:
        rows: The table.
        shapes: Shapes of all our weights, by path.
        sizes: Further sizes that the transforms need.
        where: Name of the table's model family or file, for error messages.

    Raises:
        ArtifactError: A weight of the model is not in the table.

    Example:
    >>> links = link(
    ...     [MappingRow("layer_{i}/gamma", "norm.{i}.weight")],
    ...     {"layer_0/gamma": (4,), "layer_1/gamma": (4,)},
    ...     Sizes(vocabulary_size=5, head_dim=2),
    ...     "example",
    ... )
    >>> [(x.ours, x.theirs, x.shape) for x in links]
    [(('layer_0/gamma',), 'norm.0.weight', (4,)),
     (('layer_1/gamma',), 'norm.1.weight', (4,))]
    """
    links = [found for row in rows for found in _links(row, shapes, sizes)]
    placed = {path for found in links for path in found.ours}
    if homeless := [path for path in shapes if path not in placed]:
        listed = "\n".join(f"  {path} {shapes[path]}" for path in homeless)
        raise ArtifactError(
            f"{where}: has no name for these weights of the model:\n{listed}\n"
            "Remove the part of the model that they belong to"
        )
    return links


def _links(
    row: MappingRow, shapes: Mapping[str, Shape], sizes: Sizes
) -> Iterator[WeightMapping]:
    number = 0
    while True:
        ours = tuple(path.replace("{i}", str(number)) for path in row.paths)
        if not all(path in shapes for path in ours):
            return
        ours_shapes = tuple(tuple(shapes[path]) for path in ours)
        # Arrays of the real shapes that share a single number in memory.
        dummies = [np.broadcast_to(np.int8(0), shape) for shape in ours_shapes]
        yield WeightMapping(
            row=row,
            ours=ours,
            ours_shapes=ours_shapes,
            theirs=row.theirs.replace("{i}", str(number)),
            shape=row.transform.to_theirs(dummies, sizes).shape,
            sizes=sizes,
        )
        if "{i}" not in row.theirs:
            return
        number += 1


def parts_by_name(rows: Iterable[MappingRow], num_blocks: int) -> dict[str, Part]:
    """Maps all tensor names of a table, for a number of blocks, to the model parts.

    Example:
    >>> head = MappingRow("b_{i}", "y.{i}", SAME, "head")
    >>> parts_by_name([MappingRow("a", "x"), head], 2)
    {'x': 'body', 'y.0': 'head', 'y.1': 'head'}
    """
    return {
        row.theirs.replace("{i}", str(number)): row.part
        for row in rows
        for number in range(num_blocks if "{i}" in row.theirs else 1)
    }
