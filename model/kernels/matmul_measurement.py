"""Measures products of bfloat16 matrices on this machine, once, and keeps the times.

The measurement runs in a child process, which may die or hang in place of the caller.
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
# Variables that say which instructions oneDNN may use, or whether it is used at all.
_OF_ONEDNN = ("DNNL_", "ONEDNN_", "TF_ENABLE_ONEDNN")
# These let it print each product on stdout, where the times are to be read.
_TALKATIVE = ("DNNL_VERBOSE", "ONEDNN_VERBOSE")


class MeasurementError(RuntimeError):
    """The program that measures did not come to its end."""


def measure_matmul(
    cache: Path | None = None, program: Path = PROGRAM, time_limit: float = TIME_LIMIT
) -> dict[str, float]:
    """Seconds that a product of bfloat16 matrices takes, by the dtype it runs in.

    What was measured before on the same host, processor and TensorFlow is read from the
    cache. A cache that is damaged, or cannot be written, costs a new measurement.

    Args:
        cache: The folder of the cache; the user's own if left out.
        program: What is run to measure, by this Python.
        time_limit: Seconds after which it is given up.

    Raises:
        MeasurementError: The program was killed, failed, or took too long. That is not
            kept: it may be the machine's state of the moment.
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
    """All that the times depend on: host, processor, TensorFlow, oneDNN's variables."""
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
        # Times of another program are of another product.
        "program": hashlib.sha256(PROGRAM.read_bytes()).hexdigest(),
    }


def cache_folder() -> Path:
    """The user's folder for what Transbeam can make again."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return Path(chosen or os.path.expanduser("~/.cache"), "transbeam")


def run_program(
    program: Path = PROGRAM, time_limit: float = TIME_LIMIT
) -> dict[str, float]:
    """Runs the program that measures, in a process of its own.

    Raises:
        MeasurementError: See `measure_matmul`.
    """
    # Its own alarm is the second one: it ends the program also when this process is
    # killed. -P: the modules beside the program are not those that it imports.
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
    """The times in a file of the cache; None if they are not this machine's."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("machine") != machine:
        return None
    return _checked(found.get("seconds"))


def _checked(found: Any) -> dict[str, float] | None:
    """Times that can be times: one of each dtype, finite and positive."""
    if not isinstance(found, dict) or set(found) != set(DTYPES):
        return None
    for value in found.values():
        if not isinstance(value, float) or not 0.0 < value < math.inf:
            return None
    return found
