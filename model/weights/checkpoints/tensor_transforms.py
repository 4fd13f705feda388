"""Lossless transforms between another library's tensors and ours.

Every transform only rearranges numbers. Dtypes are converted when weights are assigned
or written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

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
    """Converts one tensor of another library to one or more of ours, and back."""

    def to_theirs(self, ours: Sequence[np.ndarray], sizes: Sizes) -> np.ndarray:
        """Converts our tensors to one tensor of the other library."""
        ...

    def to_ours(
        self, theirs: np.ndarray, shapes: Sequence[Shape], sizes: Sizes
    ) -> list[np.ndarray]:
        """Converts a tensor of the other library to ours, of the given shapes."""
        ...


class _Reshaped:
    """Base of transforms whose inverse is a reshape."""

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
    """Transposes a kernel: (in, out) in Keras, (out, in) in the other library.

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
    """A table with one row per token; our table may have padding rows at the end.

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
