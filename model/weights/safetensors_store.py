"""Weights by path in a safetensors file.

Keras's own weight files identify layers by their order. In this format every weight is
identified by its path, so that a model with another head can load the weights of the
shared backbone.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.base.weight_paths import is_head
from transbeam.model.weights.assign import variables_by_path

FORMAT = {"format": "transbeam"}


def save_weights_by_path(path: Path, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a file of weights.

    Args:
        path: The file.
        weights: Pairs of path and values.

    Raises:
        ArtifactError: The file cannot be written.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in weights}
    with writing(path):
        save_file(arrays, path, metadata=FORMAT)


def load_initial_weights(model: keras.Model, path: Path) -> list[str]:
    """Loads the weights of a file into a model; see `load_matching_weights`."""
    return load_matching_weights(model, read_weights(path), str(path))


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Reads the weights of a file, by path.

    Args:
        path: A file written by `save_weights_by_path`.

    Raises:
        ArtifactError: The file is missing or damaged, or was not written by
            `save_weights_by_path`.
    """
    try:
        file = safe_open(path, framework="np")
        if file.metadata() != FORMAT:
            raise ArtifactError(
                f"{path}: is not of ours. Bring it in first: `transbeam import`"
            )
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ArtifactError(
            f"{path}: cannot be read: {error}. Correct training.initial_weights, or "
            "import the weights again"
        ) from error


def load_matching_weights(
    model: keras.Model,
    weights: Mapping[str, np.ndarray],
    where: str,
    may_lack: Callable[[str], bool] = is_head,
) -> list[str]:
    """Assigns weights by path; a head that `weights` lacks keeps its initialization.

    Args:
        model: A model of `transbeam.model`.
        weights: Values by path. Weights that the model lacks, such as another model's
            head, are ignored.
        where: Name of the source of the weights, for error messages.
        may_lack: Whether a weight, by its path, keeps its initialization if `weights`
            lacks it.

    Returns:
        Paths of the model's weights that are missing in `weights`.

    Raises:
        ArtifactError: Weights of the backbone are missing, have another shape, or are
            not finite; the message names all of them.
    """
    here = variables_by_path(model)
    missing = [name for name in here if name not in weights]
    wrong = [
        f"{name}: missing, expected {tuple(here[name].shape)}"
        for name in missing
        if not may_lack(name)
    ]
    for name, variable in here.items():
        if name not in weights:
            continue
        found, expected = weights[name].shape, tuple(variable.shape)
        if found != expected:
            wrong.append(f"{name}: {found}, expected {expected}")
        elif not np.isfinite(weights[name]).all():
            wrong.append(f"{name}: holds numbers that are not finite")
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ArtifactError(f"{where}: is of another model:\n{listed}")
    for name, variable in here.items():
        if name in weights:
            variable.assign(weights[name])
    return missing
