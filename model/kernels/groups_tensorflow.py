"""Groups of blocks one after the other, for TensorFlow.

The gradient calls the function again, group by group, and keeps nothing of the forward
pass but its inputs.
"""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from model.kernels import is_plain

# How many numbers the largest tensor of a group has: 8 MB in float32. Larger groups
# take more memory, and much smaller ones leave the matrix products too little to do.
WORK_AT_ONCE = 2**21


def in_groups(function, rows, columns, trained, work):
    """See `model.kernels.groups.in_groups`."""
    rows, columns, trained = (
        [tf.convert_to_tensor(x) for x in part] for part in (rows, columns, trained)
    )
    groups = _cut(rows[0], work)
    if groups.in_one_piece:
        return function(rows, columns, trained)
    # Whole numbers and flags have no gradient: they go in by the back door.
    floats = [x for x in (*rows, *columns) if x.dtype.is_floating]
    call = _Call(function, groups, rows, columns, len(trained))
    if is_plain():
        return call.forward(*floats, *trained)

    @tf.custom_gradient
    def forward(*inputs):
        return call.forward(*inputs), lambda upstream: call.backward(upstream, *inputs)

    return forward(*floats, *trained)


@dataclass(frozen=True)
class _Groups:
    """How the blocks are cut. Numbers where shapes are known, else scalar tensors.

    Attributes:
        blocks: `N`.
        size: Blocks of every group: the last one begins within the one before it.
        count: How many groups there are.
    """

    blocks: Any
    size: Any
    count: Any

    @property
    def in_one_piece(self) -> bool:
        """Whether that is known before the data is."""
        return isinstance(self.count, int) and self.count == 1

    def start(self, number):
        """The first block of a group."""
        return tf.minimum(number * self.size, self.blocks - self.size)

    def take(self, x, number, more):
        """The blocks of a group, and the columns that come on top."""
        start = self.start(number)
        some = x[start : start + self.size + more]
        known = isinstance(self.size, int) and isinstance(more, int)
        return tf.ensure_shape(some, (self.size + more if known else None, *x.shape[1:]))

    def are_new(self, number, rank):
        """Which blocks the group before does not have: bool `(size, 1, ...)`."""
        index = self.start(number) + tf.range(self.size)
        return tf.reshape(index >= number * self.size, (-1, *[1] * (rank - 1)))

    def join(self, gathered):
        """Puts what the groups give together, without what comes twice."""
        x = gathered.concat()
        last = (self.count - 1) * self.size
        twice = self.count * self.size - self.blocks
        x = tf.concat([x[:last], x[last + twice :]], axis=0)
        known = self.blocks if isinstance(self.blocks, int) else None
        return tf.ensure_shape(x, (known, *x.shape[1:]))


def _cut(rows, work) -> _Groups:
    blocks = rows.shape[0]
    known = isinstance(blocks, int) and isinstance(work, int)
    larger, smaller = (max, min) if known else (tf.maximum, tf.minimum)
    if not known:
        blocks = tf.shape(rows)[0]
    size = larger(WORK_AT_ONCE // larger(work, 1), 1)
    count = larger(-(-blocks // size), 1)
    # As many in each group, so that the last has few of the blocks before it.
    return _Groups(blocks, smaller(-(-blocks // count), blocks), count)


@dataclass(frozen=True)
class _Call:
    """A function of blocks, and what it is given."""

    function: Any
    groups: _Groups
    rows: list[Any]
    columns: list[Any]
    num_trained: int

    def forward(self, *inputs):
        """The function of all blocks."""
        trained = self._trained(inputs)

        def step(number, outputs):
            floats = self._floats(inputs, number)
            return number + 1, outputs.write(number, self._of_one(number, floats, trained))

        [outputs] = self._each_group(step, self._gather(self.rows[0].dtype))
        return self.groups.join(outputs)

    def backward(self, upstream, *inputs):
        """The gradients of the inputs."""
        trained = self._trained(inputs)
        rows, columns = self._split(inputs[: len(inputs) - self.num_trained])

        def step(number, to_rows, to_columns, to_trained):
            floats = self._floats(inputs, number)
            # Blocks that the group before has dealt with must not count twice.
            worth = self.groups.take(upstream, number, 0)
            new = self.groups.are_new(number, worth.shape.rank)
            worth = tf.where(new, worth, tf.zeros_like(worth))
            with tf.GradientTape() as tape:
                tape.watch((floats, trained))
                outputs = self._of_one(number, floats, trained)
            shares, trained_shares = tape.gradient(
                outputs,
                (floats, trained),
                worth,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            row_shares, column_shares = self._split(shares)
            to_rows = [a.write(number, b) for a, b in zip(to_rows, row_shares)]
            start = self.groups.start(number)
            to_columns = [
                tf.tensor_scatter_nd_add(
                    a, tf.expand_dims(start + tf.range(tf.shape(b)[0]), 1), b
                )
                for a, b in zip(to_columns, column_shares)
            ]
            to_trained = [a + b for a, b in zip(to_trained, trained_shares)]
            return number + 1, to_rows, to_columns, to_trained

        to_rows, to_columns, to_trained = self._each_group(
            step,
            [self._gather(x.dtype) for x in rows],
            [tf.zeros_like(x) for x in columns],
            [tf.zeros_like(x) for x in trained],
        )
        return [*map(self.groups.join, to_rows), *to_columns, *to_trained]

    def _of_one(self, number, floats, trained):
        """The function of one group."""
        floats = iter(floats)
        rows, columns = (
            [
                next(floats) if x.dtype.is_floating else self._take(x, number)
                for x in part
            ]
            for part in (self.rows, self.columns)
        )
        return self.function(rows, columns, list(trained))

    def _floats(self, inputs, number):
        floats = inputs[: len(inputs) - self.num_trained]
        return [self._take(x, number) for x in floats]

    def _take(self, x, number):
        more = self._beyond(x)
        return self.groups.take(x, number, more)
