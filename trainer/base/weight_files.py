"""Saves and loads weight files, also of weights that are sharded over devices."""

import errno
import math
import os
import shutil
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ArtifactError


def save_weights(model: keras.Model, path: Path) -> None:
    """Saves a model's weights, without optimizer state.

    Raises:
        ArtifactError: The disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{os.getpid()}.tmp.{path.name}")
    try:
        with writing(path):
            require_space(path.parent, size_on_disk(model.variables))
            wholes = [(v, copy_to_host(v)) for v in model.variables if _is_in_parts(v)]
            with keras.StatelessScope(wholes) if wholes else nullcontext():
                keras.saving.save_weights(model, temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_weights(model: keras.Model, path: Path) -> None:
    """Loads a file of `save_weights` into a model.

    Raises:
        ArtifactError: The file is missing, damaged, or of another model; or a weight
            is not finite.
    """
    try:
        keras.saving.load_weights(model, path)
        for variable in model.weights:
            if not np.isfinite(copy_to_host(variable)).all():
                raise ValueError(f"{variable.path} is not finite")
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(
            f"{path}: cannot be loaded: {error}. Train again"
        ) from error


def copy_to_host(variable: keras.Variable) -> np.ndarray:
    """Copies a variable's value to the host, also if it is sharded over devices.

    Only this worker's devices are read: together they hold all shards.
    """
    value: Any = variable.value
    if not _is_in_parts(variable):
        return np.array(keras.ops.convert_to_numpy(value))
    whole = np.empty(value.shape, value.dtype)
    for part in value.addressable_shards:
        whole[part.index] = part.data
    return whole


def _is_in_parts(variable: keras.Variable) -> bool:
    """Returns whether JAX cannot read a whole value, as other workers hold shards."""
    if keras.backend.backend() != "jax":
        return False
    value: Any = variable.value
    return not (value.is_fully_addressable or value.is_fully_replicated)


def size_on_disk(variables: Iterable[keras.Variable]) -> int:
    """Bytes of variables in a file; those of fewer than four each count as four."""
    return sum(4 * math.prod(variable.shape) for variable in variables)


def require_space(folder: Path, size: int) -> None:
    """Raises OSError if the disk lacks space, since HDF5 crashes the process then."""
    if shutil.disk_usage(folder).free < 1.1 * size + 1_000_000:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
