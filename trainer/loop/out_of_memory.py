"""Advice when a device runs out of memory in a training."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from transbeam.configs.base.errors import UserError
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import Memory, find_memory
from transbeam.model.cost.memory_advice import advice
from transbeam.model.weights.training_checkpoints import list_checkpoints
from transbeam.trainer.base.devices import has_gpu


class OutOfMemoryError(UserError):
    """A device ran out of memory in a training."""


@contextmanager
def memory_advice(
    config: RunConfig, checkpoints: Path, replicas: int
) -> Generator[None, None, None]:
    """A context that converts out-of-memory errors to advice on what to change.

    Args:
        config: The run.
        checkpoints: The folder of the run's checkpoints.
        replicas: Number of devices that share a batch.

    Raises:
        OutOfMemoryError: A device or the host ran out of memory.
    """
    # Measured beforehand, as a failed step still holds its memory at the error.
    found = find_memory(accelerators=has_gpu())
    try:
        yield
    except Exception as error:
        kinds = MemoryError | tf.errors.ResourceExhaustedError
        # JAX has one error type for all failures on a device.
        if not isinstance(error, kinds) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        paths = list_checkpoints(checkpoints)
        left = (
            f"{paths[-1]} is complete: with rematerialize alone the training goes on "
            "from it, with the others it starts again"
            if paths
            else "There is no checkpoint yet, so nothing is lost"
        )
        found = found or Memory("its device", 0)
        raise OutOfMemoryError(
            f"the memory of {found.where} ran out ({_first_line(error)}). "
            f"{advice(config, found, replicas)}\n{left}"
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    )
