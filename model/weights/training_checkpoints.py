"""Reads the weights of a training's checkpoints, by their paths in the model.

A checkpoint `step-…` has the tensors of a training's whole state in one file and what
they are in another; `transbeam.trainer.loop.checkpoint` writes both.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from transbeam.configs.base.errors import ArtifactError

TENSORS = "state.safetensors"
DESCRIPTION = "state.json"
# The start of the path of a moving average, before that of its weight.
AVERAGE_OF = "the average of "
# Parts of the names of the weights that Keras adds for LoRA.
_ADAPTERS = "lora_"


def list_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(folder.glob("step-*"))


def checkpoint_step(path: Path) -> int:
    """The step of a checkpoint, from its folder's name.

    Example:
    >>> checkpoint_step(Path("checkpoints/step-00000040"))
    40
    """
    return int(path.name.removeprefix("step-"))


def find_checkpoint(folder: Path, step: int) -> Path:
    """Returns the checkpoint of a step.

    Args:
        folder: The folder of the checkpoints.
        step: The step.

    Raises:
        ArtifactError: There is none; the message lists those that there are.
    """
    found = {checkpoint_step(path): path for path in list_checkpoints(folder)}
    if step not in found:
        there = ", ".join(map(str, found)) or "none"
        raise ArtifactError(
            f"{folder}: has no checkpoint of step {step}; there are: {there}. "
            "training.keep_checkpoints says how many are kept"
        )
    return found[step]


def read_checkpoint_weights(path: Path) -> dict[str, np.ndarray]:
    """Reads the weights of a checkpoint, by their paths in the model.

    With `training.ema_decay` they are the moving averages: those are validated, and
    become the weights of the finished training.

    Args:
        path: The checkpoint's folder, see `find_checkpoint`.

    Raises:
        ArtifactError: The checkpoint is damaged, or has LoRA adapters, which are merged
            only when the training ends.
    """
    try:
        rest = json.loads((path / DESCRIPTION).read_text("utf-8"))
        with safe_open(path / TENSORS, framework="np") as tensors:
            weights = {
                described["path"]: tensors.get_tensor(name)
                for name, described in rest["tensors"].items()
                if name.startswith(("model/", "average/"))
            }
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ArtifactError(
            f"{path}: not a checkpoint of this run: {error}. Choose another one"
        ) from error
    if any(_ADAPTERS in name.rpartition("/")[2] for name in weights):
        raise ArtifactError(
            f"{path}: has LoRA adapters, which are merged when the training ends. "
            "Choose the finished weights"
        )
    averages = {
        name.removeprefix(AVERAGE_OF): weights.pop(name)
        for name in list(weights)
        if name.startswith(AVERAGE_OF)
    }
    return weights | averages
