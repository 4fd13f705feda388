"""Becoming one of the workers of a training, and leaving them in an orderly way."""

import atexit
import os
import time
from collections.abc import Generator
from contextlib import contextmanager

import keras

from configs.errors import UserError
from configs.training import TrainingConfig
from trainer.distribution.place import COORDINATOR, find_place
from trainer.distribution.workers import Workers

_SECONDS_FOR_OTHERS = 2.0


class LostWorkerError(UserError):
    """Another worker is gone, and without its rows there is no batch."""


@contextmanager
def joined(config: TrainingConfig) -> Generator[Workers, None, None]:
    """Inside, this process is one of the workers of a training.

    Raises:
        ConfigError: The environment does not say which, or the backend cannot do what
            `training.distribution` asks for, or batches cannot be shared.
        LostWorkerError: Another one is gone.
    """
    workers = _connect(config)
    if workers.place.count == 1:
        workers.check_batch(config)
        yield workers
        return
    try:
        workers.check_batch(config)
        yield workers
        workers.wait()
    except BaseException as error:
        lost = workers.is_loss(error)
        # The backends would wait at the exit for those who cannot come.
        code = 2 if lost or isinstance(error, UserError) else 1
        code = 130 if isinstance(error, KeyboardInterrupt) else code
        atexit.register(_leave, code, workers.is_chief)
        if lost:
            raise LostWorkerError(
                f"worker {workers.place.number}: another worker is gone, and training "
                "needs all of them. Its own messages say why. Start all workers again: "
                f"they go on from the last checkpoint. ({_first_line(error)})"
            ) from error
        raise


def _leave(code: int, is_chief: bool) -> None:
    if is_chief:
        # JAX aborts those who find the first worker gone before they have ended.
        time.sleep(_SECONDS_FOR_OTHERS)
    os._exit(code)


def _connect(config: TrainingConfig) -> Workers:
    place = find_place(os.environ)
    # What can be known before the others are found.
    Workers(place, place.count).check_batch(config)
    if keras.backend.backend() == "jax":
        from trainer.distribution import on_jax

        address = os.environ.get(COORDINATOR, "")
        return on_jax.connect(place, config.distribution, address)
    from trainer.distribution import on_tensorflow

    return on_tensorflow.connect(place, config.distribution)


def _first_line(error: BaseException) -> str:
    """What an error of the backend says, out of pages of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "onnection" in line or "abort" in line]
    return f"{type(error).__name__}: {[*telling, *lines, ''][0]}"[:300]
