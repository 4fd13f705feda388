"""Cross-entropy over many classes, and its gradient in the same pass."""

from typing import Any

from keras import ops

from transbeam.model.kernels.dispatch import is_plain, on_tensorflow


def cross_entropy(logits: Any, targets: Any) -> tuple[Any, Any]:
    """Computes the cross-entropy in nats, and the log-partition function (logsumexp).

    TensorFlow's own gradient of gathering one logit out of 30,000 is a segment sum over
    all of them, which takes ten times as long as the softmax. This function computes
    the gradient as the softmax minus the one-hot target. The softmax is computed by
    oneDNN; its denominator follows from the largest probability, which cannot round to
    zero.

    Args:
        logits: float32 `(..., C)`.
        targets: int32 `(...)` in `[0, C)`.

    Returns:
        The cross-entropy and the log-partition function, both float32 `(...)` and with
        gradients with respect to the logits.

    Example:
    >>> nats, log_sum = cross_entropy(ops.array([[0.0, 0.0]]), ops.array([1]))
    >>> round(float(nats[0]), 4), round(float(log_sum[0]), 4)
    (0.6931, 0.6931)
    """
    if on_tensorflow() and not is_plain():
        return _on_tensorflow(logits, targets)
    return plain_cross_entropy(logits, targets)


def plain_cross_entropy(logits: Any, targets: Any) -> tuple[Any, Any]:
    """Reference implementation of `cross_entropy` in `keras.ops`."""
    log_sum = ops.logsumexp(logits, axis=-1)
    score = ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)
    return log_sum - ops.squeeze(score, -1), log_sum


def softmax_and_log_sum(logits: Any) -> tuple[Any, Any, Any]:
    """Computes the softmax, the logarithm of its denominator, and its argmax.

    Args:
        logits: float32 `(N, C)`.

    Returns:
        float32 `(N, C)`, float32 `(N,)`, and int32 `(N,)`. The results are not meant to
        be differentiated.

    Example:
    >>> softmax, log_sum, guesses = softmax_and_log_sum(ops.array([[0.0, 0.0]]))
    >>> ops.convert_to_numpy(softmax), round(float(log_sum[0]), 4), int(guesses[0])
    (array([[0.5, 0.5]], dtype=float32), 0.6931, 0)
    """
    if on_tensorflow():
        import tensorflow as tf

        # Keras's own `argmax` needs another pass, to handle signed zeros.
        softmax = tf.nn.softmax(logits)
        guesses = tf.argmax(logits, axis=-1, output_type="int32")
    else:
        softmax = ops.softmax(logits, axis=-1)
        guesses = ops.cast(ops.argmax(logits, axis=-1), "int32")
    # The largest probability is at least 1 / C, so that its logarithm is exact.
    log_sum = pick(logits, guesses) - ops.log(pick(softmax, guesses))
    return softmax, log_sum, guesses


def pick(x: Any, indices: Any) -> Any:
    """Gathers one number of each row: `(N, C)` at int32 `(N,)`.

    Example:
    >>> picked = pick(ops.array([[1.0, 2.0], [3.0, 4.0]]), ops.array([1, 0]))
    >>> ops.convert_to_numpy(picked)
    array([2., 3.], dtype=float32)
    """
    if on_tensorflow():
        import tensorflow as tf

        rows = tf.range(tf.shape(x)[0])
        return tf.gather_nd(x, tf.stack([rows, tf.cast(indices, "int32")], axis=1))
    return ops.squeeze(ops.take_along_axis(x, indices[:, None], axis=-1), -1)


def _on_tensorflow(logits, targets):
    import tensorflow as tf

    @tf.custom_gradient
    def forward(logits):
        shape = tf.shape(logits)
        rows = tf.reshape(logits, (-1, shape[-1]))
        wanted = tf.reshape(targets, (-1,))
        probabilities = tf.nn.softmax(rows)
        largest = tf.reduce_max(probabilities, axis=-1)
        log_sum = tf.reduce_max(rows, axis=-1) - tf.math.log(largest)
        indices = tf.stack([tf.range(tf.shape(wanted)[0]), wanted], axis=1)
        nats = log_sum - tf.gather_nd(rows, indices)

        def backward(to_nats, to_log_sum):
            to_nats = tf.reshape(to_nats, (-1,))
            weights = to_nats + tf.reshape(to_log_sum, (-1,))
            gradient = probabilities * weights[:, tf.newaxis]
            gradient = tf.tensor_scatter_nd_sub(gradient, indices, to_nats)
            return tf.reshape(gradient, shape)

        return (
            tf.reshape(nats, shape[:-1]),
            tf.reshape(log_sum, shape[:-1]),
        ), backward

    logits = tf.convert_to_tensor(logits)
    results: list[Any] = list(forward(logits))
    for result in results:
        result.set_shape(logits.shape[:-1])
    return results[0], results[1]
