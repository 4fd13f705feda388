"""What is said when a device has no memory left."""

from collections.abc import Generator
from contextlib import contextmanager

import tensorflow as tf

from configs.errors import UserError
from configs.memory import Memory, find_memory
from configs.run import RunConfig
from model.cost.advice import advice


class OutOfMemoryError(UserError):
    """A device had no memory left for a training."""


@contextmanager
def memory_advice(config: RunConfig, replicas: int) -> Generator[None, None, None]:
    """Inside, an error for want of memory becomes one that says what to change.

    Args:
        config: The run.
        replicas: How many devices share a batch.

    Raises:
        OutOfMemoryError: There was not enough.
    """
    try:
        yield
    except Exception as error:
        if not _is_for_want_of_memory(error):
            raise
        found = find_memory() or Memory("its device", 0)
        raise OutOfMemoryError(
            f"the memory of {found.where} ran out ({_first_line(error)}). "
            f"{advice(config, found, replicas)}\n"
            "The last checkpoint is whole: with rematerialize alone the training goes "
            "on from it, with the others it begins anew"
        ) from error


def _is_for_want_of_memory(error: Exception) -> bool:
    kinds = MemoryError | tf.errors.ResourceExhaustedError
    # JAX has one type for all that goes wrong on a device.
    return isinstance(error, kinds) or "RESOURCE_EXHAUSTED" in str(error)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    )
