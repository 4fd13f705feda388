"""Cross-entropy over a large vocabulary, with logits computed in chunks."""

from typing import Any

import keras
from keras import ops

from transbeam.model.kernels.cross_entropy import pick, softmax_and_log_sum
from transbeam.model.kernels.dense import should_widen
from transbeam.model.kernels.dispatch import on_tensorflow

# Logits at a time: in float32 they take 64 MB, and their softmax as much.
MOST_SCORES = 2**24


def vocabulary_loss(
    vectors: Any,
    table: Any,
    bias: Any,
    targets: Any,
    weights: Any,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    most_scores: int = MOST_SCORES,
) -> tuple[Any, Any, Any]:
    """Computes the loss of targets with the logits `vectors @ table.T + bias`.

    With a vocabulary of 50,000 tokens, the logits of 32 rows of 128 tokens take 800 MB,
    their softmax as much, and their gradient as much again. To save memory, logits are
    computed for some tokens at a time, reduced to a few numbers and to their gradients,
    and discarded: the loss is a sum with known weights, so its gradients are known in
    the forward pass, except for a factor. The computation has the same three matrix
    products as one with all logits, and no memory grows with tokens times vocabulary.

    With `L` for the logarithm of the softmax's denominator, `s` for the smoothing, `p`
    for the softmax and `t` for the target, the loss of a token is

        L + z_loss · L² - (1 - s) · score[t] - s · mean(score)

    and the loss's gradient with respect to the logits is `(1 + 2 · z_loss · L) · p`,
    minus `1 - s` at the target, minus `s / V` everywhere. Only the gradient's first
    term is dense; its other two terms are applied to the results of the matrix
    products, as rows of the table and as the mean of its rows.

    Shapes: `N` tokens, `D` hidden width, `V` vocabulary.

    Args:
        vectors: float `(N, D)`; the products run in its dtype or a wider one.
        table: float32 `(V, D)`.
        bias: float32 `(V,)`, or None.
        targets: int32 `(N,)` in `[0, V)`.
        weights: float32 `(N,)`: the weight of each target. The loss has no gradient
            with respect to the weights.
        label_smoothing: See `transbeam.trainer.objectives.losses.Loss`.
        z_loss: See `transbeam.trainer.objectives.losses.Loss`.
        most_scores: Largest number of logits in memory at a time, but at least those of
            one token.

    Returns:
        Three float32 scalars, weighted sums over tokens: the loss, with gradients with
        respect to `vectors`, `table` and `bias`; the cross-entropy in nats, which is
        the loss without smoothing or z-loss; and the number of targets with the largest
        logit.

    Example:
    >>> vectors, table = ops.array([[0.0], [2.0]]), ops.array([[0.0], [1.0]])
    >>> cost, nats, correct = vocabulary_loss(
    ...     vectors, table, None, ops.array([1, 1]), ops.array([1.0, 1.0])
    ... )
    >>> round(float(cost), 4), round(float(nats), 4), float(correct)
    (0.8201, 0.8201, 1.0)

    References:
        - [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7
        - [Chowdhery et al., 2022](https://arxiv.org/abs/2204.02311), section 5
    """
    number, size = ops.shape(vectors)[0], ops.shape(table)[0]
    chunk = max(1, most_scores // size)
    num_chunks = _at_least_one((number + chunk - 1) // chunk)
    dtype = "float32" if should_widen(vectors) else vectors.dtype
    evenly = label_smoothing / size

    @ops.custom_gradient
    def cost_of(vectors, table, targets, weights, bias=None):
        targets = ops.cast(targets, "int32")
        narrow = ops.cast(table, dtype)
        mean = ops.mean(table, axis=0)
        mean_bias = 0.0 if bias is None else ops.mean(bias)

        def of_chunk(x, wanted, weights):
            """Weighted sums, gradients of shared tensors, and gradients of vectors."""
            x = ops.cast(x, dtype)
            scores = _product(x, narrow, transpose_b=True)
            if bias is not None:
                scores = scores + bias
            softmax, log_sum, guesses = softmax_and_log_sum(scores)
            score = pick(scores, wanted)
            nats = log_sum - score
            cost, steepness = nats, weights
            if label_smoothing:
                wide = ops.cast(x, "float32")
                mean_score = ops.matmul(wide, mean)
                cost = cost + label_smoothing * (score - mean_score - mean_bias)
            if z_loss:
                cost = cost + z_loss * ops.square(log_sum)
                steepness = weights * (1.0 + 2.0 * z_loss * log_sum)
            correct = ops.cast(ops.equal(guesses, wanted), "float32")
            sums = [ops.sum(each * weights) for each in (cost, nats, correct)]
            softmax = ops.cast(softmax, dtype)
            column = ops.cast(steepness[:, None], dtype)
            to_vectors = _product(softmax, narrow) * steepness[:, None]
            sums.append(_product(softmax, x * column, transpose_a=True))
            if bias is not None:
                sums.append(_product(column, softmax, transpose_a=True)[0])
            return sums, to_vectors

        shared = [(), (), (), table.shape, *(() if bias is None else [bias.shape])]
        sums, to_vectors = _over_chunks(
            of_chunk,
            (vectors, targets, weights),
            num_chunks,
            [ops.zeros(shape, "float32") for shape in shared],
        )
        cost, nats, correct, to_table, *to_bias = sums

        # The terms besides the softmax: of the targets, and of all logits equally.
        wide = ops.cast(vectors, "float32")
        wanted = ((1.0 - label_smoothing) * weights)[:, None]
        to_vectors = to_vectors - wanted * ops.take(table, targets, axis=0)
        to_table = _subtract_at(to_table, targets, wanted * wide)
        to_bias = [_subtract_at(g[:, None], targets, wanted)[:, 0] for g in to_bias]
        if label_smoothing:
            to_vectors = to_vectors - label_smoothing * weights[:, None] * mean
            to_table = to_table - evenly * ops.sum(weights[:, None] * wide, axis=0)
            to_bias = [g - evenly * ops.sum(weights) for g in to_bias]

        def gradient(*arguments, upstream=None):
            # TensorFlow passes the gradient of each result, JAX a tuple of them.
            upstream_loss = keras.tree.flatten((arguments, upstream))[0]
            return (
                ops.cast(to_vectors * upstream_loss, vectors.dtype),
                to_table * upstream_loss,
                ops.zeros_like(weights),
                ops.zeros_like(weights),
                *(g * upstream_loss for g in to_bias),
            )

        return (cost, nats, correct), gradient

    # JAX requires all inputs to be arguments, and differentiable ones to be floats. All
    # ids below 16 million are exact in float32.
    inputs = [vectors, table, ops.cast(targets, "float32"), weights]
    inputs += [] if bias is None else [bias]
    if on_tensorflow():
        import tensorflow as tf

        inputs = [tf.convert_to_tensor(x) for x in inputs]  # the values of variables
    results: Any = cost_of(*inputs)
    return results


def _over_chunks(function: Any, inputs: Any, num_chunks: Any, nothing: Any) -> Any:
    """Sums a function's first result over chunks, and concatenates the second."""
    if isinstance(num_chunks, int) and num_chunks == 1:
        return function(*inputs)
    number = ops.shape(inputs[0])[0]
    size = (number + num_chunks - 1) // num_chunks  # equal, so that one shape is traced
    padding = num_chunks * size - number

    def cut(x):  # from (N, ...) to (chunks, size, ...); padding weighs nothing
        x = ops.pad(x, ((0, padding), *((0, 0) for _ in x.shape[1:])))
        return ops.reshape(x, (num_chunks, size, *x.shape[1:]))

    pieces = [cut(x) for x in inputs]

    def add(carry, index):
        sums, rests = carry
        new, rest = function(*(x[index] for x in pieces))
        sums = [a + b for a, b in zip(sums, new, strict=True)]
        return (sums, ops.slice_update(rests, (index * size, 0), rest)), None

    # A scan runs one step after the other; TensorFlow would run ten steps of a loop in
    # parallel.
    rests = ops.zeros((num_chunks * size, inputs[0].shape[-1]), "float32")
    (sums, rests), _ = ops.scan(add, (nothing, rests), ops.arange(num_chunks))
    return sums, rests[:number]


def _at_least_one(number: Any) -> Any:
    return max(1, number) if isinstance(number, int) else ops.maximum(1, number)


def _product(a: Any, b: Any, *, transpose_a=False, transpose_b=False) -> Any:
    """A matrix product in float32, with transposes fused into it on TensorFlow."""
    if on_tensorflow():
        import tensorflow as tf

        product = tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    else:
        product = ops.matmul(
            ops.transpose(a) if transpose_a else a,
            ops.transpose(b) if transpose_b else b,
        )
    return ops.cast(product, "float32")


def _subtract_at(table: Any, rows: Any, values: Any) -> Any:
    """Subtracts values at rows of a table; rows may occur more than once."""
    if on_tensorflow():
        import tensorflow as tf

        return tf.tensor_scatter_nd_sub(table, rows[:, None], values)
    return table - ops.segment_sum(values, rows, num_segments=ops.shape(table)[0])
