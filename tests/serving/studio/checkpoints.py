"""Checkpoints of runs that were not trained."""

from pathlib import Path

import numpy as np

from transbeam.model.weights.assign import variables_by_path
from transbeam.serving.base.trained_run import CHECKPOINTS, load_trained
from transbeam.trainer.loop.checkpoint import Snapshot, write_checkpoint


def keep_checkpoint(run_folder: Path, step: int, change: float = 0.3) -> Path:
    """Writes a checkpoint of the weights of a run, changed at random.

    Args:
        run_folder: The run's folder.
        step: The step.
        change: Standard deviation of what is added to the weights.
    """
    chance = np.random.default_rng(step)
    tensors, described = {}, {}
    model = load_trained(run_folder).model
    for number, (path, weight) in enumerate(variables_by_path(model).items()):
        values = np.asarray(weight)
        values = values + change * chance.standard_normal(values.shape)
        tensors[f"model/{number:05d}"] = values.astype(np.float32)
        described[f"model/{number:05d}"] = {"path": path}
    return write_checkpoint(
        run_folder / CHECKPOINTS, Snapshot(step, tensors, described)
    )
