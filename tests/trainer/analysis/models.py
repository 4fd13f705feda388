"""Runs to analyze."""

import shutil
from pathlib import Path

from transbeam.configs.loader.model_files import IMPORTED, INITIAL_WEIGHTS
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.model.base.weight_paths import is_head
from transbeam.model.weights.safetensors_store import save_weights_by_path
from transbeam.trainer.base.warm_start import find_origin


def imported_run(trained: Path, folder: Path) -> Path:
    """Makes a run with the body of a trained model, as if it were imported."""
    origin = find_origin(trained)
    stage = Stage(folder, IMPORTED, "transbeam import")
    stage.begin({})
    body = [(path, x) for path, x in origin.values().items() if not is_head(path)]
    save_weights_by_path(stage.path / INITIAL_WEIGHTS, body)
    shutil.copytree(trained / "data/tokenizer", stage.path / "tokenizer")
    save_config(folder, origin.config)
    stage.finish({}, {})
    return folder
