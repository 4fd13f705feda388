"""Log-likelihood of given tokens under a model."""

from typing import Any

import tensorflow as tf


def log_likelihood(
    logits: Any, targets: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Sums the log-probabilities of the target tokens of each row.

    Args:
        logits: float32 (B, T, V).
        targets: int32 (B, T).
        weights: int32 (B, T), 1 for a token whose log-probability is added.

    Returns:
        `log_likelihood` float32 (B,), in nats; `num_tokens` int32 (B,).

    Example:
    >>> scored = log_likelihood(
    ...     tf.zeros([1, 2, 4]), tf.constant([[3, 0]]), tf.constant([[1, 0]])
    ... )
    >>> round(float(scored["log_likelihood"][0]), 4), int(scored["num_tokens"][0])
    (-1.3863, 1)
    """
    target_logits = tf.gather(logits, targets, axis=2, batch_dims=2)
    each = target_logits - tf.reduce_logsumexp(logits, axis=2)
    total = tf.reduce_sum(each * tf.cast(weights, tf.float32), axis=1)
    return {"log_likelihood": total, "num_tokens": tf.reduce_sum(weights, axis=1)}
