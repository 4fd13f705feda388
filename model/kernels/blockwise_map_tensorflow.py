"""Processes groups of blocks one after the other, for TensorFlow.

The gradient calls the function again, group by group, and keeps only the inputs of the
forward pass.
"""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from transbeam.model.kernels.dispatch import is_plain

# Size of the largest tensor of a group: 8 MB in float32. Larger groups take more
# memory, and with much smaller ones the matrix products are slow.
WORK_AT_ONCE = 2**21


def in_groups(function, rows, columns, marks, trained, work):
    """See `transbeam.model.kernels.blockwise_map.in_groups`."""
    rows, columns, marks, trained = (
        [tf.convert_to_tensor(x) for x in part]
        for part in (rows, columns, marks, trained)
    )
    groups = _cut(rows[0], columns[0], work)
    # A loop over groups needs lists of tensors, which not every runtime supports.
    if groups.in_one_piece or is_plain():
        return function(rows, columns, marks, trained)
    call = _Call(function, groups, marks, len(rows), len(columns))
    return _with_gradient(call)(*rows, *columns, *trained)


def _with_gradient(call: "_Call"):
    @tf.custom_gradient
    def forward(*inputs):
        return call.forward(*inputs), lambda upstream: call.backward(upstream, *inputs)

    return forward


@dataclass(frozen=True)
class _Groups:
    """The partition of the blocks into groups.

    The attributes are ints if shapes are static, else scalar tensors.

    Attributes:
        blocks: `N`.
        size: Number of blocks in each group: the last group overlaps the one before it.
        count: Number of groups.
        more: `W - 1`: a group has this many more columns than blocks.
    """

    blocks: Any
    size: Any
    count: Any
    more: Any

    @property
    def in_one_piece(self) -> bool:
        """True if all blocks are statically known to fit in one group."""
        return isinstance(self.count, int) and self.count == 1

    def start(self, number):
        """The first block of a group, which is also its first column."""
        return tf.minimum(number * self.size, self.blocks - self.size)

    def rows(self, parts, number):
        """Slices the blocks of a group."""
        return [self._take(x, self.start(number), self.size) for x in parts]

    def columns(self, parts, number):
        """Slices the columns of a group."""
        return [self._take(x, self.start(number), self.size + self.more) for x in parts]

    def _take(self, x, start, size):
        rest = x.shape.rank - 1
        some = tf.slice(x, (start, *[0] * rest), (size, *[-1] * rest))
        known = size if isinstance(size, int) else None
        return tf.ensure_shape(some, (known, *x.shape[1:]))

    def new_rows(self, x, number):
        """Slices a group's blocks; those that overlap the previous group are zeroed."""
        [x] = self.rows([x], number)
        index = self.start(number) + tf.range(self.size)
        new = tf.reshape(index >= number * self.size, (-1, *[1] * (x.shape.rank - 1)))
        return tf.where(new, x, tf.zeros_like(x))

    def add_columns(self, total, number, share):
        """Adds the gradient of a group's columns to the gradient of all columns."""
        index = self.start(number) + tf.range(self.size + self.more)
        return tf.tensor_scatter_nd_add(total, tf.expand_dims(index, 1), share)

    def gather(self, like):
        """Makes a buffer for the groups' slices of a tensor of shape `(N, ...)`."""
        known = self.size if isinstance(self.size, int) else None
        shape = (known, *like.shape[1:])
        return tf.TensorArray(like.dtype, self.count, element_shape=shape)

    def join(self, gathered):
        """Concatenates the groups' slices, without the duplicate blocks."""
        x = gathered.stack()  # (count, size, ...)
        x = tf.reshape(x, (self.count * self.size, *tf.unstack(tf.shape(x))[2:]))
        last = (self.count - 1) * self.size
        twice = self.count * self.size - self.blocks
        return tf.concat([x[:last], x[last + twice :]], axis=0)

    def each(self, step, *state):
        """Calls a step function for each group, one group at a time."""
        _, *state = tf.while_loop(
            lambda number, *_: number < self.count,
            step,
            (tf.constant(0), *state),
            parallel_iterations=1,
        )
        return state


def _cut(rows, columns, work) -> _Groups:
    blocks, width = rows.shape[0], columns.shape[0]
    known = None not in (blocks, width) and isinstance(work, int)
    if not known:
        blocks, width = tf.shape(rows)[0], tf.shape(columns)[0]
    larger, smaller = (max, min) if known else (tf.maximum, tf.minimum)
    size = larger(WORK_AT_ONCE // larger(work, 1), 1)
    count = larger(-(-blocks // size), 1)
    # Groups of equal size, so that the last overlaps by few blocks.
    return _Groups(blocks, smaller(-(-blocks // count), blocks), count, width - blocks)


@dataclass(frozen=True)
class _Call:
    """A function of blocks, with the number of its inputs of each kind."""

    function: Any
    groups: _Groups
    marks: list[Any]
    num_rows: int
    num_columns: int

    def forward(self, *inputs):
        """Applies the function to all blocks."""
        rows, columns, trained = self._split(inputs)
        groups = self.groups

        def step(number, outputs):
            some, around = groups.rows(rows, number), groups.columns(columns, number)
            part = self._part(number, some, around, trained)
            return number + 1, outputs.write(number, part)

        [outputs] = groups.each(step, groups.gather(rows[0]))
        return groups.join(outputs)

    def backward(self, upstream, *inputs):
        """The gradients of the inputs."""
        rows, columns, trained = self._split(inputs)
        groups = self.groups

        def step(number, to_rows, to_columns, to_trained):
            some, around = groups.rows(rows, number), groups.columns(columns, number)
            with tf.GradientTape() as tape:
                tape.watch((some, around, trained))
                part = self._part(number, some, around, trained)
            shares = tape.gradient(  # pyright: ignore[reportCallIssue]
                part,
                (some, around, trained),
                groups.new_rows(upstream, number),  # pyright: ignore[reportArgumentType]
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            to_rows = [
                total.write(number, share)
                for total, share in zip(to_rows, shares[0], strict=True)
            ]
            to_columns = [
                groups.add_columns(total, number, share)
                for total, share in zip(to_columns, shares[1], strict=True)
            ]
            to_trained = [
                total + tf.cast(share, "float32")
                for total, share in zip(to_trained, shares[2], strict=True)
            ]
            return number + 1, to_rows, to_columns, to_trained

        to_rows, to_columns, to_trained = groups.each(
            step,
            [groups.gather(x) for x in rows],
            [tf.zeros_like(x) for x in columns],
            # Accumulated over all groups, for which bfloat16 is too coarse.
            [tf.zeros_like(x, "float32") for x in trained],
        )
        to_trained = [
            tf.cast(total, x.dtype)
            for total, x in zip(to_trained, trained, strict=True)
        ]
        return [*map(groups.join, to_rows), *to_columns, *to_trained]

    def _part(self, number, rows, columns, trained):
        marks = self.groups.rows(self.marks, number)
        return self.function(rows, columns, marks, trained)

    def _split(self, inputs):
        columns = self.num_rows + self.num_columns
        return (
            list(inputs[: self.num_rows]),
            list(inputs[self.num_rows : columns]),
            list(inputs[columns:]),
        )
