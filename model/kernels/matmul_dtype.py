"""The dtype in which bfloat16 matrices are multiplied on a CPU.

Processors with bfloat16 instructions are fastest in bfloat16. Processors without
bfloat16 instructions take twice as long in bfloat16 as in float32, so converting the
matrices to float32 is faster. The choice depends on measured times, not on the reported
processor features, because some machines report features that do not work, and other
properties matter more.
"""

import functools
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import keras

from transbeam.configs.base.errors import ConfigError
from transbeam.model.kernels.dispatch import on_tensorflow
from transbeam.model.kernels.matmul_measurement import (
    DTYPES,
    MeasurementError,
    measure_matmul,
)

VARIABLE = "TRANSBEAM_BFLOAT16_MATMUL"
# Products in float32 are more exact, so bfloat16 must be faster by this factor.
MARGIN = 1.1


@dataclass(frozen=True)
class MatmulChoice:
    """The dtype of products of bfloat16 matrices, and the reason for it.

    Attributes:
        dtype: `bfloat16`, or `float32` if the matrices are widened.
        reason: The reason for the choice, as a message to the user.
        seconds: Seconds of one product, by dtype, if they were measured.
        failed: True if the measurement failed.
    """

    dtype: str
    reason: str
    seconds: Mapping[str, float] | None = None
    failed: bool = False

    def __str__(self) -> str:
        return f"bfloat16 matrices are multiplied in {self.dtype}: {self.reason}"


def faster_dtype(seconds: Mapping[str, float]) -> str:
    """Selects the dtype for products of bfloat16 matrices from the measured seconds.

    Example:
    >>> faster_dtype({"float32": 2.0, "bfloat16": 1.0})
    'bfloat16'
    >>> faster_dtype({"float32": 2.0, "bfloat16": 1.9})
    'float32'
    """
    gains = seconds["bfloat16"] * MARGIN <= seconds["float32"]
    return "bfloat16" if gains else "float32"


def choose_matmul_dtype() -> MatmulChoice:
    """Chooses, by a measurement, how this machine multiplies bfloat16 matrices.

    The environment variable `TRANSBEAM_BFLOAT16_MATMUL` overrides the choice. With a
    GPU, or a backend other than TensorFlow, nothing is measured or widened.

    Raises:
        ConfigError: The value of the environment variable is neither `bfloat16` nor
            `float32`.
    """
    if not on_tensorflow():
        backend = keras.backend.backend()
        return MatmulChoice("bfloat16", f"the backend is {backend}")
    if _has_gpu():
        return MatmulChoice("bfloat16", "there is a GPU")
    if forced := os.environ.get(VARIABLE):
        if forced not in DTYPES:
            raise ConfigError(
                f"{VARIABLE}={forced}: expected {' or '.join(DTYPES)}; or no such "
                "variable, and the faster one is taken"
            )
        return MatmulChoice(forced, f"{VARIABLE} says so")
    try:
        seconds = measure_matmul()
    except MeasurementError as error:
        reason = (
            f"the program that measures which is faster here {error}. "
            f"{VARIABLE}={'|'.join(DTYPES)} does without it"
        )
        return MatmulChoice("float32", reason, failed=True)
    each = " and ".join(f"{1e3 * seconds[x]:.2f} ms in {x}" for x in reversed(DTYPES))
    reason = f"one product and its gradients take {each} on this machine"
    return MatmulChoice(faster_dtype(seconds), reason, seconds)


_set: str | None = None


def set_matmul_dtype(dtype: str | None) -> None:
    """Sets the dtype in which this process multiplies bfloat16 matrices.

    Graphs that were traced before are not affected.

    Args:
        dtype: `bfloat16`, or `float32` to widen them; None to call
            `choose_matmul_dtype` at the first use.
    """
    global _set
    _set = dtype


def matmul_dtype() -> str:
    """The dtype in which this process multiplies bfloat16 matrices of many rows.

    Example:
    >>> set_matmul_dtype("bfloat16")
    >>> matmul_dtype()
    'bfloat16'
    >>> set_matmul_dtype(None)
    """
    if not on_tensorflow() or _has_gpu():
        return "bfloat16"
    return _set or _chosen()


@functools.cache
def _chosen() -> str:
    choice = choose_matmul_dtype()
    if choice.failed:
        warnings.warn(str(choice), stacklevel=2)
    return choice.dtype


def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
