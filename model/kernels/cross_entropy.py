"""What a target costs among many scores, and the gradient of that in one pass."""

from typing import Any

from keras import ops

from model.kernels import is_plain, on_tensorflow


def cross_entropy(logits: Any, targets: Any) -> tuple[Any, Any]:
    """Nats that each target costs, and the logarithm of the softmax's denominator.

    TensorFlow's own gradient of picking one score out of 30,000 is a sum by segments
    into all of them, and takes ten times as long as the softmax. Here the gradient is
    the softmax less one at the target; and the softmax is oneDNN's, of which the
    denominator is read off where it is largest and nothing can round to zero.

    Args:
        logits: float32 `(..., C)`.
        targets: int32 `(...)` in `[0, C)`.

    Returns:
        Two float32 `(...)`, both with gradients to the logits.

    Example:
    >>> nats, log_sum = cross_entropy(ops.array([[0.0, 0.0]]), ops.array([1]))
    >>> round(float(nats[0]), 4), round(float(log_sum[0]), 4)
    (0.6931, 0.6931)
    """
    if on_tensorflow() and not is_plain():
        return _on_tensorflow(logits, targets)
    return plain_cross_entropy(logits, targets)


def plain_cross_entropy(logits: Any, targets: Any) -> tuple[Any, Any]:
    """As `cross_entropy`, in `keras.ops`: the reference."""
    log_sum = ops.logsumexp(logits, axis=-1)
    score = ops.take_along_axis(logits, ops.expand_dims(targets, -1), axis=-1)
    return log_sum - ops.squeeze(score, -1), log_sum


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
        places = tf.stack([tf.range(tf.shape(wanted)[0]), wanted], axis=1)
        nats = log_sum - tf.gather_nd(rows, places)

        def backward(to_nats, to_log_sum):
            to_nats = tf.reshape(to_nats, (-1,))
            weights = to_nats + tf.reshape(to_log_sum, (-1,))
            gradient = probabilities * weights[:, tf.newaxis]
            gradient = tf.tensor_scatter_nd_sub(gradient, places, to_nats)
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
