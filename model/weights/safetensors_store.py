"""Our own weights by our own paths, in one file of safetensors.

Keras's own files hold layers in their order. Here every weight has its name, so that a
model with another head finds what it shares with the one they are of.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from transbeam.configs.base.atomic_files import writing
from transbeam.configs.base.errors import ArtifactError
from transbeam.model.base.weight_paths import is_head
from transbeam.model.weights.assign import variables_of

FORMAT = {"format": "transbeam"}


def save_weights_by_path(path: Path, weights: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes a file of weights.

    Args:
        path: The file.
        weights: Pairs of path and values.

    Raises:
        ArtifactError: The disk refuses.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in weights}
    with writing(path):
        save_file(arrays, path, metadata=FORMAT)


def begin_with(model: keras.Model, path: Path) -> list[str]:
    """Gives a model the weights of a file; see `take_over`, and `read_weights`."""
    return take_over(model, read_weights(path), str(path))


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The weights of a file by their paths.

    Args:
        path: As `save_weights_by_path` writes it.

    Raises:
        ArtifactError: The file is missing, damaged, or not of ours.
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
            f"{path}: cannot be read: {error}. Mend training.initial_weights, or "
            "import the weights again"
        ) from error


def take_over(
    model: keras.Model, weights: Mapping[str, np.ndarray], where: str
) -> list[str]:
    """Gives a model weights by their paths; a head that is not there stays as it is.

    Args:
        model: Any model of ours.
        weights: By path. What the model has no use for, such as another head, is left.
        where: What they are from, for messages.

    Returns:
        The weights of the model that are not there.

    Raises:
        ArtifactError: Weights of the body are missing, have another shape, or are not
            finite; the message names all of them.
    """
    here = variables_of(model)
    missing = [name for name in here if name not in weights]
    wrong = [
        f"{name}: missing, expected {tuple(here[name].shape)}"
        for name in missing
        if not is_head(name)
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
