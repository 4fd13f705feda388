"""Folders of runs that have a model, as far as a configuration looks into them."""

from pathlib import Path

from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
)
from transbeam.configs.loader.run_folder import Stage, save_config
from transbeam.configs.schema.run import RunConfig


def imported_run(folder: Path, config: RunConfig, *, tokenizer: bool = True) -> Path:
    """Makes what `transbeam import` makes, with empty files."""
    stage = Stage(folder, IMPORTED, "transbeam import")
    stage.begin({})
    (stage.path / INITIAL_WEIGHTS).touch()
    if tokenizer:
        (stage.path / TOKENIZER).mkdir()
    save_config(folder, config)
    stage.finish({}, {})
    return folder


def trained_run(folder: Path, config: RunConfig) -> Path:
    """Makes what `transbeam data` and `train` make, with empty files."""
    (folder / "data" / TOKENIZER).mkdir(parents=True)
    stage = Stage(folder, "training", "transbeam train")
    stage.begin({})
    (stage.path / WEIGHTS).touch()
    save_config(stage.path, config)
    stage.finish({}, {})
    return folder
