"""Attention for one block of queries at a time, for TensorFlow.

This module uses plain ops, in patterns that TensorFlow's graph optimizer recognizes:
the optimizer fuses `matmul(query, key) * scale + bias` to one kernel if all heads share
the bias.

Shapes: `C` queries of a block; the other letters are those of
`transbeam.model.kernels.attention`. In this module heads precede tokens: queries are
`(B, H, T, K)`, keys `(B, G, S, K)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from transbeam.model.kernels.dispatch import is_for_phones, is_plain

# Scores that are computed at once: 16 MB in float32. Larger memory blocks are returned
# to the system after each use, and allocated again as pages that must be zeroed; with
# much smaller ones the matrix products are slow.
SCORES_AT_ONCE = 2**22
FEWEST_ROWS = 64


def attend(query, key, value, row_bias, trained, scale):
    """See `transbeam.model.kernels.attention.scaled_dot_product_attention`."""
    query, key, value = (_swap(tf.convert_to_tensor(x)) for x in (query, key, value))
    trained = [tf.convert_to_tensor(x) for x in trained]
    attention = _Attention(row_bias, scale, _cut(query, key))
    if attention.rows.in_one_piece:
        outputs = attention.at_once(query, key, value, *trained)
    elif is_plain():
        outputs = attention.forward(query, key, value, *trained)
    else:
        outputs = _with_gradient(attention)(query, key, value, *trained)
    return _swap(outputs)


def _with_gradient(attention: "_Attention"):
    """Wraps the attention so that the gradient recomputes its scores."""

    @tf.custom_gradient
    def forward(*inputs):
        outputs = attention.forward(*inputs)
        return outputs, lambda upstream: attention.backward(upstream, outputs, *inputs)

    return forward


@dataclass(frozen=True)
class _Rows:
    """The partition of the queries into blocks of equal size.

    The attributes are ints if shapes are static, else scalar tensors.

    Attributes:
        length: `T`.
        size: `C`, queries of each block: the last block overlaps the one before it.
        pieces: Number of blocks.
    """

    length: Any
    size: Any
    pieces: Any

    @property
    def in_one_piece(self) -> bool:
        """True if all queries are statically known to fit in one block."""
        return isinstance(self.pieces, int) and self.pieces == 1

    def start(self, number):
        """The index of the first row of a block of queries."""
        return tf.minimum(number * self.size, self.length - self.size)

    def take(self, x, number):
        """The rows of a block: from `(B, H, T, K)` to `(B, H, C, K)`."""
        some = tf.slice(x, (0, 0, self.start(number), 0), (-1, -1, self.size, -1))
        return tf.ensure_shape(some, self.shape(x))

    def are_new(self, number):
        """Marks rows of a block that are not in the previous block: bool `(C, 1)`."""
        rows = self.start(number) + tf.range(self.size)
        return tf.expand_dims(rows >= number * self.size, 1)

    def gather(self, like):
        """Makes a buffer for the blocks of a tensor of shape `(B, H, T, K)`."""
        return tf.TensorArray(like.dtype, self.pieces, element_shape=self.shape(like))

    def shape(self, x):
        """Returns the static shape of a block of `x`."""
        batch, heads, _, width = x.shape
        return batch, heads, self.size if isinstance(self.size, int) else None, width

    def join(self, gathered, like):
        """Concatenates blocks, without the duplicate rows: `(B, H, T, K)`."""
        x = tf.transpose(gathered.stack(), (1, 2, 0, 3, 4))  # (B, H, pieces, C, K)
        batch, heads, _, width = _shape(like)
        x = tf.reshape(x, (batch, heads, self.pieces * self.size, width))
        last = (self.pieces - 1) * self.size
        twice = self.pieces * self.size - self.length
        x = tf.concat([x[:, :, :last], x[:, :, last + twice :]], axis=2)
        return tf.ensure_shape(x, like.shape)


def _cut(query, key) -> _Rows:
    batch, heads, length, _ = _shape(query)
    if is_for_phones():  # one text, which is short
        return _Rows(length, length, 1)
    row = batch * heads * _shape(key)[2]  # scores of one row
    known = isinstance(length, int) and isinstance(row, int)
    larger, smaller = (max, min) if known else (tf.maximum, tf.minimum)
    size = larger(SCORES_AT_ONCE // larger(row, 1), FEWEST_ROWS)
    pieces = larger(-(-length // size), 1)
    # Pieces of equal size, so that the last overlaps by few rows.
    return _Rows(length, smaller(-(-length // pieces), length), pieces)


@dataclass(frozen=True)
class _Attention:
    """Attention over blocks of queries, and its gradient."""

    row_bias: Callable[..., Any] | None
    scale: float
    rows: _Rows

    def at_once(self, query, key, value, *trained):
        """Computes the attention of all queries as one block."""
        bias = self._bias(0, self.rows.length, trained)
        return self._attend(query, key, value, bias)

    def forward(self, *inputs):
        """Computes the attention in as many blocks of queries as needed."""
        if isinstance(self.rows.pieces, int):
            return self._in_pieces(*inputs)
        outputs = tf.cond(
            self.rows.pieces == 1,
            lambda: self.at_once(*inputs),
            lambda: self._in_pieces(*inputs),
        )
        return tf.ensure_shape(outputs, inputs[0].shape)

    def _in_pieces(self, query, key, value, *trained):
        rows = self.rows

        def step(number, outputs):
            bias = self._bias(rows.start(number), rows.size, trained)
            piece = self._attend(rows.take(query, number), key, value, bias)
            return number + 1, outputs.write(number, piece)

        [outputs] = self._each_piece(step, rows.gather(query))
        return rows.join(outputs, query)

    def backward(self, upstream, outputs, query, key, value, *trained):
        """The gradients of query, key, value and `trained`."""
        rows = self.rows

        def step(number, to_query, to_key, to_value, *to_trained):
            some = rows.take(query, number)
            # Rows of the previous piece must not count twice.
            some_upstream = rows.take(upstream, number)
            some_upstream = tf.where(
                rows.are_new(number), some_upstream, tf.zeros_like(some_upstream)
            )
            with tf.GradientTape() as tape:
                tape.watch(trained)
                bias = self._bias(rows.start(number), rows.size, trained)
            probabilities = self._probabilities(some, key, bias)

            to_probabilities = _wide(_product(some_upstream, value, transpose_b=True))
            # The softmax's gradient subtracts the mean of the probabilities' gradient.
            if trained:
                # From the rounded values, so that the gradients of a row's scores add
                # up to 0: a bias sums over many rows, which would accumulate errors.
                mean = probabilities * to_probabilities
            else:  # equals the mean over the outputs, which is a shorter sum
                mean = _wide(some_upstream) * _wide(rows.take(outputs, number))
            mean = tf.reduce_sum(mean, axis=-1, keepdims=True)
            to_scores = probabilities * (to_probabilities - mean)

            if trained:
                shares = tape.gradient(
                    bias,
                    trained,
                    [_sum_to(bias, to_scores)],
                    unconnected_gradients=tf.UnconnectedGradients.ZERO,
                )
                to_trained = [
                    total + _wide(share)
                    for total, share in zip(to_trained, shares, strict=True)
                ]
            to_scores = tf.cast(to_scores, query.dtype)
            probabilities = tf.cast(probabilities, query.dtype)
            to_query = to_query.write(number, _product(to_scores, key))
            to_key += _wide(_product_over_rows(to_scores, some, key))
            to_value += _wide(_product_over_rows(probabilities, some_upstream, key))
            return number + 1, to_query, to_key, to_value, *to_trained

        zeros = [tf.zeros_like(x, "float32") for x in (key, value, *trained)]
        to_query, to_key, *others = self._each_piece(step, rows.gather(query), *zeros)
        gradients = [rows.join(to_query, query) * self.scale, to_key * self.scale]
        return [
            tf.cast(gradient, x.dtype)
            for gradient, x in zip(
                [*gradients, *others], (query, key, value, *trained), strict=True
            )
        ]

    def _each_piece(self, step, *state):
        # Two pieces at a time: the small ops of one overlap with the product of the
        # other.
        _, *state = tf.while_loop(
            lambda number, *_: number < self.rows.pieces,
            step,
            (tf.constant(0), *state),
            parallel_iterations=2,
        )
        return state

    def _bias(self, start, size, trained) -> Any:
        return None if self.row_bias is None else self.row_bias(start, size, *trained)

    def _attend(self, query, key, value, bias):
        probabilities = self._probabilities(query, key, bias)
        return _product(tf.cast(probabilities, value.dtype), value)

    def _probabilities(self, query, key, bias):
        """The softmax of the scores of a block of queries: float32 `(B, H, C, S)`."""
        if bias is not None and bias.shape[1] == 1:
            bias = tf.cast(bias, query.dtype)
        scores = _product(query, key, transpose_b=True)
        if bias is None or bias.dtype == scores.dtype:
            scores = self._biased(scores, bias)
        else:
            scores = self._biased(_wide(scores), bias)
        return tf.nn.softmax(_wide(scores))

    def _biased(self, scores, bias):
        if self.scale != 1.0:
            scores *= self.scale
        return scores if bias is None else scores + bias


def _product(queries, keys, *, transpose_b=False):
    """Multiplies `(B, H, C, X)` by `(B, G, ...)` per key head: gives `(B, H, C, Y)`."""
    heads, groups = queries.shape[1], keys.shape[1]
    if heads == groups:
        return tf.matmul(queries, keys, transpose_b=transpose_b)
    batch, _, count, _ = _shape(queries)
    product = tf.matmul(_to_groups(queries, groups), keys, transpose_b=transpose_b)
    return tf.reshape(product, (batch, heads, count, _shape(product)[-1]))


def _product_over_rows(weights, rows, like):
    """Computes weights.T @ rows, summed over the heads of a group: `(B, G, S, X)`."""
    groups = like.shape[1]
    weights, rows = _to_groups(weights, groups), _to_groups(rows, groups)
    return tf.matmul(weights, rows, transpose_a=True)


def _to_groups(x, groups):
    """Reshapes `(B, H, C, X)` to `(B, G, H/G C, X)`: rows that share a key head."""
    batch, heads, count, width = _shape(x)
    if heads == groups:
        return x
    return tf.reshape(x, (batch, groups, heads // groups * count, width))


def _sum_to(like, x):
    """Sums a gradient over the axes along which `like` was broadcast."""
    shape = tf.shape(like)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=shape, s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(x, axes), shape)


def _wide(x):
    return tf.cast(x, "float32")


def _swap(x):
    """Exchanges heads and tokens: `(B, T, H, K)` and `(B, H, T, K)`."""
    return tf.transpose(x, (0, 2, 1, 3))


def _shape(x) -> list[Any]:
    """A tensor's sizes, the unknown ones as scalar tensors."""
    sizes = tf.shape(x)
    return [sizes[i] if size is None else size for i, size in enumerate(x.shape)]
