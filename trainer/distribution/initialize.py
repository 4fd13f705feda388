"""Initializes and shuts down the distributed runtime of the backend."""

import atexit
import os
import time
from collections.abc import Generator
from contextlib import contextmanager

import keras

from transbeam.configs.base.errors import ConfigError, UserError
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.distribution.native_log import NativeLog
from transbeam.trainer.distribution.process_info import ProcessInfo
from transbeam.trainer.distribution.rendezvous import LostWorkerError, Rendezvous
from transbeam.trainer.distribution.workers import Workers

_SECONDS_FOR_OTHERS = 2.0
_PORT_TAKEN = ("Could not start gRPC server", "Failed to start RPC server")


@contextmanager
def join_workers(
    config: TrainingConfig, rendezvous: Rendezvous
) -> Generator[Workers, None, None]:
    """A context in which this process is one of the workers of a training.

    Args:
        config: The `training` section.
        rendezvous: The rendezvous of all workers; with several workers it is closed
            once their backends are connected.

    Raises:
        ConfigError: The backend does not support `training.distribution`, or batches
            cannot be split equally.
        LostWorkerError: Another worker is gone.
    """
    place = rendezvous.place
    # A check that needs no backend: at least one replica per worker.
    Workers(place, place.count).check_batch(config)
    if place.count == 1:
        workers = _connect(place, config)
        workers.check_batch(config)
        yield workers
        return
    workers, log = None, NativeLog()
    try:
        workers = rendezvous.run(lambda: _connect(place, config))
        rendezvous.close()
        workers.check_batch(config)
        yield workers
        workers.wait()
        log.drop()
    except BaseException as error:
        converted = _convert_error(error, place, workers)
        code = 2 if isinstance(converted, UserError) else 1
        code = 130 if isinstance(error, KeyboardInterrupt) else code
        # At exit the backends would wait for workers that cannot come.
        atexit.register(_leave, code, place.is_chief, log)
        if converted is error:
            raise
        raise converted from error


def _convert_error(
    error: BaseException, place: ProcessInfo, workers: Workers | None
) -> BaseException:
    """Converts an error of the backend to a `UserError` if its cause is known."""
    if workers is not None and workers.is_loss(error):
        return LostWorkerError(
            f"worker {place.number}: another worker is gone, and training needs all of "
            "them. Its own messages say why. Start all workers again: they go on from "
            f"the last checkpoint. ({_first_line(error)})"
        )
    if any(sign in str(error) for sign in _PORT_TAKEN):
        return ConfigError(
            f"{place.listens_at}: another process has taken the port just now. End it, "
            "or give this worker another port, in the environment of all of them"
        )
    return error


def _leave(code: int, is_chief: bool, log: NativeLog) -> None:
    if code != 1:  # our own error has been printed by now
        log.drop()
    if is_chief:
        # JAX aborts workers that lose the first worker before they have ended.
        time.sleep(_SECONDS_FOR_OTHERS)
    os._exit(code)


def _connect(place: ProcessInfo, config: TrainingConfig) -> Workers:
    if keras.backend.backend() == "jax":
        from transbeam.trainer.distribution import on_jax

        address = place.addresses[0] if place.count > 1 else ""
        return on_jax.connect(place, config.distribution, address)
    from transbeam.trainer.distribution import on_tensorflow

    return on_tensorflow.connect(place, config.distribution)


def _first_line(error: BaseException) -> str:
    """The most informative line of a backend's error message, which may be long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    informative = [line for line in lines if "onnection" in line or "abort" in line]
    return f"{type(error).__name__}: {[*informative, *lines, ''][0]}"[:300]
