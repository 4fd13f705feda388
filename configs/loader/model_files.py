"""The files of a run's model: its configuration, its weights and its tokenizer.

RUN/training/run.yaml, model.weights.h5   what `transbeam train` made
RUN/data/tokenizer                        its tokenizer
RUN/run.yaml                              what `transbeam import` made,
RUN/imported/weights.safetensors          and `trim` and `prune`
RUN/imported/tokenizer                    its tokenizer
"""

from dataclasses import dataclass
from pathlib import Path

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.run_file import RUN_FILE
from transbeam.configs.loader.run_folder import Stage

IMPORTED = "imported"
INITIAL_WEIGHTS = "weights.safetensors"
TOKENIZER = "tokenizer"
WEIGHTS = "model.weights.h5"
# Files of checkpoints that `transbeam import` reads.
_OF_OTHERS = ("config.json", "bert_config.json")


@dataclass(frozen=True)
class ModelFiles:
    """The files of a run's model.

    Attributes:
        config: The configuration with which the model was trained or imported.
        weights: The weights, in the format of the stage that made them.
        tokenizer: The tokenizer's folder; None if it was imported without one.
        is_trained: True if the run trained the model, false if it imported it.
    """

    config: Path
    weights: Path
    tokenizer: Path | None
    is_trained: bool


def training_stage(run_folder: Path) -> Stage:
    """Returns the stage in which a run keeps its trained model."""
    return Stage(run_folder, "training", f"transbeam train CONFIG --run {run_folder}")


def was_trained(run_folder: Path) -> bool:
    """Returns whether a run has finished its own training."""
    stage = training_stage(run_folder)
    return stage.is_finished and not stage.load()["result"].get(IMPORTED)


def find_model_weights(run_folder: Path) -> Path:
    """Returns the weights of a run; trained ones take precedence over imported ones."""
    if was_trained(run_folder):
        return training_stage(run_folder).path / WEIGHTS
    return run_folder / IMPORTED / INITIAL_WEIGHTS


def find_model_files(run_folder: Path) -> ModelFiles:
    """Finds the model of a run; a trained one takes precedence over an imported one.

    Raises:
        ArtifactError: The run has no model, or the `stage.json` of its stage is
            damaged.
    """
    weights = find_model_weights(run_folder)
    if was_trained(run_folder):
        config = training_stage(run_folder).path / RUN_FILE
        return ModelFiles(config, weights, run_folder / "data" / TOKENIZER, True)
    imported = Stage(run_folder, IMPORTED, f"transbeam import DIR --run {run_folder}")
    if not imported.is_finished:
        raise ArtifactError(
            f"{run_folder}: has no trained model: {_reason(run_folder)}"
        )
    imported.load()  # names what is damaged
    tokenizer = imported.path / TOKENIZER
    return ModelFiles(
        run_folder / RUN_FILE, weights, tokenizer if tokenizer.is_dir() else None, False
    )


def _reason(folder: Path) -> str:
    """Describes why a folder has no model, and how to fix it."""
    if any((folder / name).is_file() for name in _OF_OTHERS):
        return (
            "it is a checkpoint of another program. Bring it in with `transbeam import "
            f"{folder} --run runs/NAME`, and name that folder"
        )
    if (folder / "stage.json").is_file():
        return f"it is the folder of a stage. Name that of the run: {folder.parent}"
    return (
        "neither `transbeam train` nor `transbeam import` has finished there. Name "
        "another folder, or train there first"
    )
