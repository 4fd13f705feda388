"""Model FLOPs utilization (MFU): FLOPs of a step, and a device's measured peak."""

import time
from functools import cache

import keras
from keras import ops

from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.model.cost.report import count_cost
from transbeam.model.cost.stacks import sequences_per_record

_SIDES = (1_024, 2_048, 4_096, 8_192)
_LONG_ENOUGH = 0.01  # seconds; shorter products are mostly launch overhead
# Seconds of repetition: with other load on the machine most tries are slowed down.
_PATIENCE = 0.3


def least_step_seconds(config: RunConfig, vocabulary_size: int, replicas: int) -> float:
    """Seconds of an update if the devices ran its FLOPs at their peak throughput.

    Args:
        config: The run.
        vocabulary_size: Vocabulary size of the run's tokenizer.
        replicas: Number of devices that share the work.
    """
    dtype = config.training.precision.removeprefix("mixed_")
    return step_flops(config, vocabulary_size) / (peak_flops(dtype) * replicas)


def step_flops(config: RunConfig, vocabulary_size: int) -> float:
    """FLOPs of an update's forward and backward passes, without rematerialization.

    `transbeam cost` counts the same FLOPs for a batch of full-length records; batches
    of shorter records have about as many tokens.

    Args:
        config: The run.
        vocabulary_size: Vocabulary size of the run's tokenizer; ignored for image
            models.
    """
    images = isinstance(config.objective, ImageObjective)
    cost = count_cost(config, vocabulary_size=None if images else vocabulary_size)
    work = cost["flops"]["per_sequence"]
    each = work["forward"]["total"] + work["backward"]["total"]
    sequences = config.training.batch_size * sequences_per_record(config.objective)
    return sequences * each


@cache
def peak_flops(dtype: str) -> float:
    """Measures the FLOPs per second that a device reaches in large matrix products.

    Args:
        dtype: Dtype of the factors, such as `bfloat16`.
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
    """Times one matrix product, until one number of its result is on the host."""
    # NumPy cannot take a bfloat16 from TensorFlow that is not in an array.
    began = time.perf_counter()
    ops.convert_to_numpy(ops.cast(multiply(factor, factor)[0, 0], "float32"))
    return time.perf_counter() - began
