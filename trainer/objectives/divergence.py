"""Divergence of a student's predictions from a teacher's."""

from typing import Any

from keras import ops


def divergence(student: Any, teacher: Any, temperature: float) -> Any:
    """KL(teacher || student) at a temperature, in nats: `(B, ..., C)` to `(B, ...)`.

    Example:
    >>> import numpy as np
    >>> even, sure = np.log([[0.5, 0.5]]), np.log([[0.9, 0.1]])
    >>> ops.convert_to_numpy(divergence(even, sure, 1.0)).round(4)  # ln 2 - entropy
    array([0.3681], dtype=float32)
    """
    student, teacher = (
        ops.log_softmax(ops.cast(scores, "float32") / temperature, axis=-1)
        for scores in (student, teacher)
    )
    # The probabilities add up to the same, so their differences add nothing, but with
    # them no term is below zero, and what rounding does to one is undone by the other.
    predicted, wanted = ops.exp(student), ops.exp(teacher)
    return ops.sum(wanted * (teacher - student) + (predicted - wanted), axis=-1)
