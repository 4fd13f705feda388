"""Tables that map our weights to the tensors of other libraries.

A table maps the paths of weights to names of tensors, with a transform of each.
Transforms only rearrange values. Dtypes are converted when weights are assigned or
written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from transbeam.configs.base.errors import ArtifactError

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the model that transforms need in addition to the weights' shapes.

    Attributes:
        vocabulary_size: Number of tokens; our tables may have more rows.
        head_dim: Width of an attention head.
        num_channels: Color channels, for image models.
    """

    vocabulary_size: int
    head_dim: int
    num_channels: int = 3


class Transform(Protocol):
    """Transforms one tensor of another library to one or several of ours, and back."""

    def to_theirs(self, ours: Sequence[np.ndarray], sizes: Sizes) -> np.ndarray:
        """Converts our tensors to one tensor of the other library."""
        ...

    def to_ours(
        self, theirs: np.ndarray, shapes: Sequence[Shape], sizes: Sizes
    ) -> list[np.ndarray]:
        """Converts a tensor of the other library to ours, of the given shapes."""
        ...


class _Reshaped:
    """Base of transforms that are undone by a reshape."""

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        return [theirs.reshape(shape)]


@dataclass(frozen=True)
class Same(_Reshaped):
    """The identity; the other library's tensor may have leading axes of length 1.

    Args:
        leading: Number of leading axes.

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=2)
    >>> Same(leading=1).to_theirs([np.ones((2, 3))], sizes).shape
    (1, 2, 3)
    """

    leading: int = 0

    def to_theirs(self, ours, sizes):
        [array] = ours
        return array.reshape((1,) * self.leading + array.shape)


@dataclass(frozen=True)
class Transposed:
    """Transposes a kernel: ours is (in, out), as in Keras; the other one (out, in).

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=2)
    >>> Transposed().to_theirs([np.ones((2, 3))], sizes).shape
    (3, 2)
    """

    def to_theirs(self, ours, sizes):
        [array] = ours
        return array.T

    def to_ours(self, theirs, shapes, sizes):
        return [theirs.T]


@dataclass(frozen=True)
class VocabularyRows:
    """A table with a row for each token; ours may have more rows than tokens.

    The padding rows after the vocabulary are not written, and are zero when read.

    Args:
        axis: The axis of the tokens in our table.
        transposed: True if the other library's table is transposed.

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=2)
    >>> VocabularyRows().to_theirs([np.ones((8, 3))], sizes).shape
    (5, 3)
    >>> VocabularyRows().to_ours(np.ones((5, 3)), [(8, 3)], sizes)[0].sum(axis=1)
    array([3., 3., 3., 3., 3., 0., 0., 0.])
    """

    axis: int = 0
    transposed: bool = False

    def to_theirs(self, ours, sizes):
        [array] = ours
        array = _resized(array, self.axis, sizes.vocabulary_size)
        return array.T if self.transposed else array

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        array = theirs.T if self.transposed else theirs
        return [_resized(array, self.axis, shape[self.axis])]


def _resized(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    """Truncates an axis, or pads it with zeros at the end."""
    missing = length - array.shape[axis]
    if missing <= 0:
        return array[(slice(None),) * axis + (slice(length),)]
    margins = [(0, 0)] * array.ndim
    margins[axis] = (0, missing)
    return np.pad(array, margins)


@dataclass(frozen=True)
class SideBySide:
    """Joins several of our tensors to one along the last axis (GPT-2's `c_attn`).

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=2)
    >>> SideBySide().to_theirs([np.ones((2, 4)), np.ones((2, 3))], sizes).shape
    (2, 7)
    """

    def to_theirs(self, ours, sizes):
        return np.concatenate(ours, axis=-1)

    def to_ours(self, theirs, shapes, sizes):
        ends = np.cumsum([shape[-1] for shape in shapes])[:-1]
        return np.split(theirs, ends, axis=-1)


@dataclass(frozen=True)
class PatchKernel:
    """The kernel of a patch embedding.

    Our kernel is that of a dense layer, (height width channels, D); the other library's
    is that of a convolution in PyTorch, (D, channels, height, width).

    Example:
    >>> sizes = Sizes(vocabulary_size=0, head_dim=2, num_channels=3)
    >>> PatchKernel().to_theirs([np.ones((48, 8))], sizes).shape
    (8, 3, 4, 4)
    """

    def to_theirs(self, ours, sizes):
        [array] = ours
        side = _side(array.shape, sizes)
        squares = array.reshape(side, side, sizes.num_channels, -1)
        return squares.transpose(3, 2, 0, 1)

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        return [theirs.transpose(2, 3, 1, 0).reshape(shape)]


@dataclass(frozen=True)
class PatchSquares(_Reshaped):
    """The kernel of a patch embedding as a Keras convolution.

    The other library's kernel has the shape (height, width, channels, D).

    Example:
    >>> sizes = Sizes(vocabulary_size=0, head_dim=2, num_channels=3)
    >>> PatchSquares().to_theirs([np.ones((48, 8))], sizes).shape
    (4, 4, 3, 8)
    """

    def to_theirs(self, ours, sizes):
        [array] = ours
        side = _side(array.shape, sizes)
        return array.reshape(side, side, sizes.num_channels, -1)


@dataclass(frozen=True)
class SplitHeads(_Reshaped):
    """Splits an axis of our tensor into heads and head width (KerasHub).

    Args:
        axis: The axis of our tensor with the length heads times head width.

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=4)
    >>> SplitHeads(axis=1).to_theirs([np.ones((8, 12))], sizes).shape
    (8, 3, 4)
    """

    axis: int

    def to_theirs(self, ours, sizes):
        [array] = ours
        before, after = array.shape[: self.axis], array.shape[self.axis + 1 :]
        return array.reshape(*before, -1, sizes.head_dim, *after)


def _side(shape: Shape, sizes: Sizes) -> int:
    """Height and width of the patches of a kernel."""
    return round((shape[0] / sizes.num_channels) ** 0.5)


SAME = Same()
TRANSPOSE = Transposed()
VOCABULARY = VocabularyRows()
SCORES = VocabularyRows(axis=1, transposed=True)
SIDE_BY_SIDE = SideBySide()


# A checkpoint may have heads and a pooler that are not needed; a body is read
# completely. The pooler's names have the prefix of the body.
Part = Literal["body", "pooler", "head"]


@dataclass(frozen=True)
class MappingRow:
    """A row of a mapping table; in both names `{i}` is the index of a block.

    Attributes:
        ours: Path of our weight, or of several that correspond to one tensor.
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
            "Take the part of the model away that they belong to"
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
