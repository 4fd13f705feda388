"""The backend of Keras that each command runs on.

Users choose it by `KERAS_BACKEND`, or in Keras's own file. Trainings run on TensorFlow
and on JAX; what makes or asks a SavedModel runs on TensorFlow whatever was chosen.
"""

import importlib.util
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from configs.errors import ConfigError

TENSORFLOW = "tensorflow"
# Backends that trainings run on, and how to install them.
_TRAINING = {TENSORFLOW: "tensorflow", "jax": "transbeam[jax]"}
_ANY = frozenset({"run", "train", "evaluate", "sweep", "import", "trim"})
_ON_TENSORFLOW = frozenset(
    {"check", "deploy", "export", "loadtest", "predict", "prune", "score", "serve"}
)


def chosen_backend(environment: Mapping[str, str]) -> str:
    """The backend that the user has chosen.

    Example:
    >>> chosen_backend({"KERAS_BACKEND": "jax"})
    'jax'
    """
    if backend := environment.get("KERAS_BACKEND"):
        return backend
    folder = Path(environment.get("KERAS_HOME", "~/.keras")).expanduser()
    with suppress(OSError, ValueError, AttributeError):
        return json.loads((folder / "keras.json").read_bytes()).get("backend")
    return TENSORFLOW


def backend_for(
    command: str,
    environment: Mapping[str, str],
    is_installed: Callable[[str], object] = importlib.util.find_spec,
) -> str | None:
    """The backend that a command runs on; None for one that does without Keras.

    Args:
        command: Its name, such as `train`.
        environment: The process's.
        is_installed: Tells whether a module can be imported.

    Raises:
        ConfigError: The command cannot run on the chosen backend.

    Example:
    >>> backend_for("export", {"KERAS_BACKEND": "jax"})
    'tensorflow'
    >>> backend_for("data", {"KERAS_BACKEND": "torch"})
    """
    if command in _ON_TENSORFLOW:
        return TENSORFLOW
    if command not in _ANY:
        return None
    chosen = chosen_backend(environment)
    if chosen not in _TRAINING:
        known = " or ".join(_TRAINING)
        raise ConfigError(
            f"KERAS_BACKEND={chosen}: `transbeam {command}` runs on {known}. Set it to "
            "one of them, or take it away"
        )
    if not is_installed(chosen):
        raise ConfigError(
            f"KERAS_BACKEND={chosen}: {chosen} is not installed here. Take it away, or "
            f"pip install '{_TRAINING[chosen]}'"
        )
    return chosen
