"""Losses and metrics: sums over real targets, divided by how many there are."""

import keras


def masked_cross_entropy() -> keras.losses.Loss:
    """Nats per asked-for token.

    Called with targets (B, P), logits (B, P, V) and weights (B, P). Unused slots weigh
    0 and count neither above nor below the line, so a record with few slots does not
    weigh more per token than a full one.

    Example:
    >>> import numpy as np
    >>> logits = np.log([[[0.5, 0.5], [0.25, 0.75]]]).astype("float32")
    >>> targets, weights = np.array([[0, 0]]), np.array([[1.0, 0.0]])
    >>> round(float(masked_cross_entropy()(targets, logits, weights)), 4)
    0.6931
    """
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True,
        reduction="mean_with_sample_weight",
        name="masked_cross_entropy",
    )


def masked_accuracy() -> keras.metrics.Metric:
    """Share of asked-for tokens whose first guess is right."""
    return keras.metrics.SparseCategoricalAccuracy(name="accuracy")
