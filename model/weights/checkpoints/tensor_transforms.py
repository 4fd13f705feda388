"""Lossless transforms between another program's tensors and ours.

Every transform only moves numbers about. The number format is no concern of theirs:
it is changed when weights are assigned or written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The model's sizes that a transform needs beyond the shape of a weight.

    Attributes:
        vocabulary_size: Tokens there are; our tables may have more rows.
        head_dim: Width of an attention head.
        num_channels: Colours of a pixel, for models of images.
    """

    vocabulary_size: int
    head_dim: int
    num_channels: int = 3


class Transform(Protocol):
    """One tensor of theirs for one of ours, or for several."""

    def to_theirs(self, ours: Sequence[np.ndarray], sizes: Sizes) -> np.ndarray:
        """Our tensors as one of theirs."""
        ...

    def to_ours(
        self, theirs: np.ndarray, shapes: Sequence[Shape], sizes: Sizes
    ) -> list[np.ndarray]:
        """One of theirs as our tensors, of the given shapes."""
        ...


@dataclass(frozen=True)
class Same:
    """As it is. Axes of length 1 may stand before ours in theirs.

    Args:
        leading: How many such axes.

    Example:
    >>> sizes = Sizes(vocabulary_size=5, head_dim=2)
    >>> Same(leading=1).to_theirs([np.ones((2, 3))], sizes).shape
    (1, 2, 3)
    """

    leading: int = 0

    def to_theirs(self, ours, sizes):
        [array] = ours
        return array.reshape((1,) * self.leading + array.shape)

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        return [theirs.reshape(shape)]


@dataclass(frozen=True)
class Transposed:
    """A kernel: ours is (in, out), as in Keras; theirs (out, in), as in PyTorch.

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

    The rows past the vocabulary are of no token. They are not written, and are zero
    when read.

    Args:
        axis: Which of our axes counts the tokens.
        transposed: Whether theirs has its two axes the other way round.

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
    """Cut off, or with zeros behind."""
    missing = length - array.shape[axis]
    if missing <= 0:
        return array[(slice(None),) * axis + (slice(length),)]
    margins = [(0, 0)] * array.ndim
    margins[axis] = (0, missing)
    return np.pad(array, margins)


@dataclass(frozen=True)
class SideBySide:
    """Several of ours laid end to end along the last axis (GPT-2's `c_attn`).

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
    """The kernel that reads a square of an image.

    Ours is a dense layer's, (height width channels, D); theirs a convolution's, (D,
    channels, height, width).

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
class PatchSquares:
    """The same kernel as Keras's convolution has it: (height, width, channels, D).

    Example:
    >>> sizes = Sizes(vocabulary_size=0, head_dim=2, num_channels=3)
    >>> PatchSquares().to_theirs([np.ones((48, 8))], sizes).shape
    (4, 4, 3, 8)
    """

    def to_theirs(self, ours, sizes):
        [array] = ours
        side = _side(array.shape, sizes)
        return array.reshape(side, side, sizes.num_channels, -1)

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        return [theirs.reshape(shape)]


@dataclass(frozen=True)
class SplitHeads:
    """Theirs has an axis for the heads (KerasHub), which ours folds into the next.

    Args:
        axis: Which of our axes is heads times width of a head.

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

    def to_ours(self, theirs, shapes, sizes):
        [shape] = shapes
        return [theirs.reshape(shape)]


def _side(shape: Shape, sizes: Sizes) -> int:
    """Height and width of the squares that a kernel reads."""
    return round((shape[0] / sizes.num_channels) ** 0.5)


SAME = Same()
TRANSPOSE = Transposed()
VOCABULARY = VocabularyRows()
SCORES = VocabularyRows(axis=1, transposed=True)
SIDE_BY_SIDE = SideBySide()
