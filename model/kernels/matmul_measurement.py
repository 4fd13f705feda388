"""Measures products of bfloat16 matrices on this machine once, and caches the times.

The measurement runs in a child process, because it may crash or hang.
"""

import hashlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from transbeam.configs.base.atomic_files import write_json
from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.system.cpu_features import identify_processor
from transbeam.configs.system.quiet_imports import quiet_environment

PROGRAM = Path(__file__).with_name("matmul_program.py")
DTYPES = ("float32", "bfloat16")
# Importing TensorFlow takes a few seconds, on a busy machine many times that.
TIME_LIMIT = 60.0
# Prefixes of variables that control oneDNN's instructions, or if it is used at all.
_OF_ONEDNN = ("DNNL_", "ONEDNN_", "TF_ENABLE_ONEDNN")
# With these, oneDNN prints each product to stdout, where the times are expected.
_TALKATIVE = ("DNNL_VERBOSE", "ONEDNN_VERBOSE")


class MeasurementError(RuntimeError):
    """The measuring program failed or did not finish."""


def measure_matmul(
    cache: Path | None = None, program: Path = PROGRAM, time_limit: float = TIME_LIMIT
) -> dict[str, float]:
    """Measures the seconds of a product of bfloat16 matrices, by compute dtype.

    Earlier results on the same host, processor and TensorFlow are read from the cache.
    If the cache is damaged or cannot be written, the measurement is repeated.

    Args:
        cache: The folder of the cache; the user's cache folder if left out.
        program: The measuring program, run by the current Python interpreter.
        time_limit: Seconds after which the measuring program is stopped.

    Raises:
        MeasurementError: The program was killed, failed, or took too long. A failure is
            not cached, as it may be temporary.
    """
    machine = identify_machine()
    digest = hashlib.sha256(json.dumps(machine).encode()).hexdigest()[:16]
    file = (cache or cache_folder()) / f"matmul-{digest}.json"
    seconds = _read(file, machine)
    if seconds is None:
        seconds = run_program(program, time_limit)
        with suppress(OSError, ArtifactError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, {"machine": machine, "seconds": seconds})
    return seconds


def identify_machine() -> dict[str, Any]:
    """Everything the times depend on: host, processor, TensorFlow, oneDNN variables."""
    import tensorflow as tf

    variables = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_OF_ONEDNN) and name not in _TALKATIVE
    }
    return {
        "host": platform.node(),
        "processor": identify_processor(),
        "tensorflow": tf.__version__,
        "environment": variables,
        # Another version of the program measures another product.
        "program": hashlib.sha256(PROGRAM.read_bytes()).hexdigest(),
    }


def cache_folder() -> Path:
    """The user's cache folder of Transbeam."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen or os.path.expanduser("~/.cache"), "transbeam")


def run_program(
    program: Path = PROGRAM, time_limit: float = TIME_LIMIT
) -> dict[str, float]:
    """Runs the measuring program in its own process.

    Raises:
        MeasurementError: See `measure_matmul`.
    """
    # The program's own alarm is a second limit, also if this process is killed. -P: it
    # must not import the modules beside it.
    alarm = str(math.ceil(time_limit) + 10)
    environment = quiet_environment()
    for name in _TALKATIVE:
        environment.pop(name, None)
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(program), alarm],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"did not end within {time_limit:g} s") from None
    except OSError as error:
        raise MeasurementError(f"could not be started: {error}") from error
    if done.returncode < 0:
        raise MeasurementError(f"was killed by {_signal_name(-done.returncode)}")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        raise MeasurementError(f"failed: {last.strip()[:200]}")
    with suppress(ValueError):
        if (seconds := _checked(json.loads(done.stdout))) is not None:
            return seconds
    raise MeasurementError("printed no times")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _read(file: Path, machine: Mapping[str, Any]) -> dict[str, float] | None:
    """Reads the timings in a cache file; None if they are from another machine."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("machine") != machine:
        return None
    return _checked(found.get("seconds"))


def _checked(found: Any) -> dict[str, float] | None:
    """Validates times: one per dtype, finite and positive; returns None if invalid."""
    if not isinstance(found, dict) or set(found) != set(DTYPES):
        return None
    for value in found.values():
        if not isinstance(value, float) or not 0.0 < value < math.inf:
            return None
    return found
