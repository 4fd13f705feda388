"""A process that builds the model of a configuration, and times its work on request.

Each configuration has a process of its own: its peak memory is that of this model
alone, and nothing that another one has compiled or cached is used.
"""

import math
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from transbeam.configs.base.errors import UserError
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.system.memory import peak_bytes, reset_peak, resident_bytes
from transbeam.configs.system.quiet_imports import quiet_import

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Work = Literal["forward", "step"]
# Seconds of repetition for a time, so that the clock and the interpreter do not count.
_LONG_ENOUGH = 0.1
_MOST_REPEATS = 200
# The first call traces and compiles, the second one may still allocate.
_WARM_UPS = 2
_TIDYING = 5.0  # seconds


class ProcessFailedError(Exception):
    """A measured process has ended, or its model cannot be built or run."""


@dataclass(frozen=True)
class PreparedWork:
    """Device and backend of a process that has built its model.

    Attributes:
        device: `cpu`, or the name of the accelerator's kind.
        backend: The Keras backend.
        peak_flops: FLOPs per second that the device reaches in large matrix products.
    """

    device: str
    backend: str
    peak_flops: float


class MeasuredProcess:
    """The process of a configuration, from the side that asks.

    Args:
        run: The configuration.
        vocabulary_size: The vocabulary size of its tokenizer.
    """

    def __init__(self, run: RunConfig, vocabulary_size: int):
        processes = multiprocessing.get_context("spawn")
        self._connection, other = processes.Pipe()
        self._process = processes.Process(
            target=_serve, args=(run, vocabulary_size, other), daemon=True
        )
        self._process.start()
        other.close()

    def prepare(self) -> PreparedWork:
        """Builds model and update, compiles both, and warms up.

        Raises:
            ProcessFailedError: It failed, such as for lack of memory.
        """
        return self._ask("prepare")

    def seconds(self, work: Work) -> float:
        """Measures the mean time of a call, repeated if it is short.

        Args:
            work: `forward`, an evaluation of a batch without dropout; or `step`, an
                update: forward and backward pass, clipping and optimizer.
        """
        return self._ask(work)

    def memory(self) -> int:
        """Peak bytes of the calls since the warm-up, beyond those of the libraries.

        On an accelerator it is the peak of its memory; on a CPU the peak resident
        memory of the process, less what it held after TensorFlow was imported.
        """
        return self._ask("memory")

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            self._connection.send("end")
        self._process.join(_TIDYING)
        self._process.terminate()
        self._connection.close()

    def _ask(self, request: str) -> Any:
        try:
            self._connection.send(request)
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_TIDYING)
            raise ProcessFailedError(_ending(self._process.exitcode)) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _ending(code: int | None) -> str:
    """Describes the end of a process.

    Example:
    >>> _ending(-9)
    'its process was killed (signal 9), as when memory runs out'
    """
    if code is not None and code < 0:
        return f"its process was killed (signal {-code}), as when memory runs out"
    return f"its process ended with exit code {code}"


def _serve(run: RunConfig, vocabulary_size: int, connection: "Connection") -> None:
    """Answers requests until one is to end, or until the other side closes."""
    # Several processes share an accelerator, so none may take all of its memory.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    calls: dict[str, Callable[[], Any]] = {}
    with suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while (request := connection.recv()) != "end":
            try:
                if request == "prepare":
                    prepared, calls = _prepare(run, vocabulary_size)
                    connection.send(prepared)
                else:
                    connection.send(calls[request]())
            except UserError as error:
                connection.send(error)
            except Exception as error:  # also those of the backend, of any type
                lines = str(error).strip().splitlines() or [""]
                text = f"{type(error).__name__}: {lines[0][:200]}"
                connection.send(ProcessFailedError(text))


def _prepare(
    run: RunConfig, vocabulary_size: int
) -> tuple[PreparedWork, dict[str, Callable[[], Any]]]:
    quiet_import("tensorflow", "keras")
    import keras

    from transbeam.trainer.base.devices import device_kind, peak_device_bytes
    from transbeam.trainer.loop.mfu import peak_flops
    from transbeam.trainer.measurement.measured_step import build_measured_step

    dtype = run.training.precision.removeprefix("mixed_")
    found = PreparedWork(device_kind(), keras.backend.backend(), peak_flops(dtype))
    libraries = resident_bytes() or peak_bytes()
    calls: dict[str, Callable[[], Any]] = {}
    for name, call in build_measured_step(run, vocabulary_size).items():
        took = [_seconds(call) for _ in range(_WARM_UPS)][-1]
        repeats = min(max(math.ceil(_LONG_ENOUGH / took), 1), _MOST_REPEATS)
        calls[name] = _timer(call, repeats)
    reset_peak()

    def memory() -> int:
        on_device = peak_device_bytes()
        return max(peak_bytes() - libraries, 0) if on_device is None else on_device

    return found, {**calls, "memory": memory}


def _timer(call: Callable[[], Any], repeats: int) -> Callable[[], float]:
    def mean_seconds() -> float:
        began = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - began) / repeats

    return mean_seconds


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return max(time.perf_counter() - began, 1e-9)
