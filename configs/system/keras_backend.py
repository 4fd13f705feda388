"""The backend of Keras that each command runs on.

Users choose the backend by the environment variable `KERAS_BACKEND`, or in Keras's own
configuration file. Trainings run on TensorFlow and on JAX. Commands that tokenize
always run on TensorFlow, because they use tensorflow_text, which imports Keras;
commands that write or run a SavedModel also always run on TensorFlow.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from transbeam.configs.base.errors import ConfigError

TENSORFLOW = "tensorflow"
# Backends that trainings run on, and how to install them.
_TRAINING = {TENSORFLOW: "tensorflow", "jax": "transbeam[jax]"}
_ANY = frozenset({"run", "train", "evaluate", "sweep", "suite", "import", "trim"})
_ON_TENSORFLOW = frozenset(
    {
        "analyze",
        "check",
        "data",
        "deploy",
        "export",
        "loadtest",
        "predict",
        "prune",
        "score",
    }
    | {"serve", "studio", "tokenize"}
)


def chosen_backend(environment: Mapping[str, str]) -> str:
    """The backend that the user has chosen.

    Example:
    >>> chosen_backend({"KERAS_BACKEND": "jax"})
    'jax'
    """
    if backend := environment.get("KERAS_BACKEND"):
        return backend
    with suppress(OSError, ValueError, AttributeError):
        settings = json.loads(_keras_file(environment).read_bytes())
        return str(settings.get("backend", TENSORFLOW))
    return TENSORFLOW


def _keras_file(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("KERAS_HOME", "~/.keras"), "keras.json").expanduser()


def backend_for(
    command: str,
    environment: Mapping[str, str],
    is_installed: Callable[[str], object] = importlib.util.find_spec,
) -> str | None:
    """The backend that a command runs on; None for a command that does not use Keras.

    Args:
        command: The command's name, such as `train`.
        environment: The process's environment.
        is_installed: A function whose result is true if a module can be imported.

    Raises:
        ConfigError: The command cannot run on the chosen backend.

    Example:
    >>> backend_for("export", {"KERAS_BACKEND": "jax"})
    'tensorflow'
    >>> backend_for("cost", {"KERAS_BACKEND": "torch"})
    """
    if command in _ON_TENSORFLOW:
        return TENSORFLOW
    if command not in _ANY:
        return None
    chosen = chosen_backend(environment)
    choice = f"KERAS_BACKEND={chosen}"
    if not environment.get("KERAS_BACKEND"):
        choice = f"{_keras_file(environment)}: backend={chosen}"
    if chosen not in _TRAINING:
        known = " or ".join(_TRAINING)
        raise ConfigError(
            f"{choice}: `transbeam {command}` runs on {known}. Set it to "
            "one of them, or remove the setting"
        )
    if not is_installed(chosen):
        raise ConfigError(
            f"{choice}: {chosen} is not installed here. Remove the setting, or "
            f"pip install '{_TRAINING[chosen]}'"
        )
    return chosen


def take_backend(command: str) -> None:
    """Sets the Keras backend for a command, before Keras is imported.

    Child processes of the command inherit the backend.

    Args:
        command: The command's name, such as `train`; for a command that does not use
            Keras, nothing is changed.

    Raises:
        ConfigError: The command cannot run on the chosen backend.
    """
    backend = backend_for(command, os.environ)
    if backend is not None and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = backend
