"""How much of a device's arithmetic a training makes use of."""

import time
from functools import cache

import keras
from keras import ops

from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.model.cost.report import count_cost

_SIDES = (1_024, 2_048, 4_096, 8_192)
_LONG_ENOUGH = 0.01  # seconds; shorter products are mostly their start
# Seconds of trying: with other work on the machine most tries are slower than it can.
_PATIENCE = 0.3


def least_step_seconds(config: RunConfig, vocabulary_size: int, replicas: int) -> float:
    """How long an update takes if devices do its arithmetic alone, and at their best.

    Args:
        config: The run.
        vocabulary_size: Of its tokenizer.
        replicas: How many devices share the work.
    """
    dtype = config.training.precision.removeprefix("mixed_")
    return step_flops(config, vocabulary_size) / (peak_flops(dtype) * replicas)


def step_flops(config: RunConfig, vocabulary_size: int) -> float:
    """FLOPs of an update's forward and backward passes, without their repetition.

    Those of `transbeam cost` for a batch of whole records; batches of shorter records
    have as many tokens.

    Args:
        config: The run.
        vocabulary_size: Of its tokenizer; without effect for images.
    """
    images = isinstance(config.objective, ImageObjective)
    cost = count_cost(config, vocabulary_size=None if images else vocabulary_size)
    work = cost["flops"]["per_sequence"]
    each = work["forward"]["total"] + work["backward"]["total"]
    return config.training.batch_size * each


@cache
def peak_flops(dtype: str) -> float:
    """FLOPs per second that a device reaches in a large product, by trying.

    Args:
        dtype: Of the factors, such as `bfloat16`.
    """
    multiply = _compiled(ops.matmul)
    best = 0.0
    for side in _SIDES:
        factor = ops.ones((side, side), dtype)
        seconds = min(_seconds(multiply, factor) for _ in range(4))
        best = max(best, 2 * side**3 / seconds)
        if seconds > _LONG_ENOUGH:
            break
    until = time.perf_counter() + _PATIENCE
    while time.perf_counter() < until:
        best = max(best, 2 * side**3 / _seconds(multiply, factor))
    return best


def _compiled(function):
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, autograph=False)


def _seconds(multiply, factor) -> float:
    """Of one product, waited for by reading a number of it."""
    # NumPy cannot take a bfloat16 from TensorFlow that is not in an array.
    began = time.perf_counter()
    ops.convert_to_numpy(ops.cast(multiply(factor, factor)[0, 0], "float32"))
    return time.perf_counter() - began
