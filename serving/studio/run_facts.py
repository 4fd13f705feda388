"""Facts about trained runs, read from their configurations without loading a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.run_file import run_file
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.attention import Attention
from transbeam.configs.schema.model import Seq2SeqModelConfig
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import input_names, traits
from transbeam.configs.schema.run import RunConfig
from transbeam.model.weights.training_checkpoints import (
    checkpoint_step,
    list_checkpoints,
)
from transbeam.serving.base.trained_run import CHECKPOINTS, CONFIG

TARGET = "target_text"
_RUNS = Path("runs")

_WITHOUT_MAPS = {
    "low_rank": "tokens attend to projections of all keys, not to single tokens",
    "kernel": "attention weights of single pairs of tokens are never computed",
}
_UNFINISHED = "its training is not finished"


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run.

    Attributes:
        name: The run's name on the page, unique among the runs.
        folder: The run's folder.
        config: The configuration that it was trained with.
        why_no_maps: The reason why it has no attention maps; None if it has some.
        is_trained: False if its training is not finished.
    """

    name: str
    folder: Path
    config: RunConfig
    why_no_maps: str | None
    is_trained: bool = True

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the texts that the model reads; the decoder's own text is last."""
        names = input_names(self.config.objective)
        return (*names, TARGET) if self.config.model.kind == "seq2seq" else names

    @property
    def examples(self) -> tuple[str, ...]:
        """An example for each of `inputs`."""
        fixed = traits(self.config.objective)
        texts = dict(zip(fixed.inputs, fixed.example, strict=True))
        if self.config.export.examples:
            texts["text"] = self.config.export.examples[0]
        found = [texts.get(name, "") for name in self.inputs]
        return tuple(text or found[0] for text in found)

    @property
    def checkpoints(self) -> list[int]:
        """Steps of the checkpoints that are kept, which a training changes."""
        return [checkpoint_step(p) for p in list_checkpoints(self.folder / CHECKPOINTS)]

    @property
    def tflite_files(self) -> dict[str, Path]:
        """The exported TFLite file of each variant, such as `dynamic_int8`."""
        stage = Stage(self.folder, "export", f"transbeam export {self.folder}")
        try:
            files = stage.load()["result"].get("tflite", {})
        except ArtifactError:
            return {}  # not exported, or by another version
        folder = stage.path / "tflite"
        return {
            variant: folder / Path(of["path"]).name for variant, of in files.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Returns the facts as a JSON object; see `schemas.RUN`."""
        model, attention = self.config.model, self.config.model.attention
        found: dict[str, Any] = {
            "name": self.name,
            "objective": self.config.objective.kind,
            "family": model.kind,
            "inputs": list(self.inputs),
            "examples": list(self.examples),
            "layers": model.num_layers,
            "heads": attention.num_heads,
            "hidden_dim": model.hidden_dim,
            "attention": attention.kind,
            "max_length": model.max_sequence_length,
            "has_maps": self.why_no_maps is None,
            "why_no_maps": self.why_no_maps,
            "is_trained": self.is_trained,
            "checkpoints": self.checkpoints,
            "tflite": list(self.tflite_files),
        }
        if isinstance(model, Seq2SeqModelConfig):
            found["decoder_layers"] = model.decoder_layers
        return found


def find_runs(folders: Sequence[Path]) -> list[RunFacts]:
    """Reads the facts of runs that are trained or in training.

    Args:
        folders: The folders of the runs; if empty, all such runs below `runs/`.

    Raises:
        ArtifactError: A folder has no training, or there is no run.
        ConfigError: A run's configuration cannot be read.
    """
    chosen = list(folders)
    if not chosen:
        chosen = sorted(
            {
                file.parents[1]
                for pattern in ("training/stage.json", "training/unfinished.json")
                for file in _RUNS.glob(f"*/{pattern}")
            }
        )
        if not chosen:
            raise ArtifactError(
                f"{_RUNS}: there is no trained run in this folder. Train one, such as "
                "by `transbeam run configs/demo.yaml`, or name the folder of a run"
            )
    names = [folder.resolve().name for folder in chosen]
    return [
        read_facts(folder, name if names.count(name) == 1 else str(folder))
        for folder, name in zip(chosen, names, strict=True)
    ]


def read_facts(folder: Path, name: str) -> RunFacts:
    """Reads the facts of one run.

    Args:
        folder: The run's folder.
        name: The run's name on the page.

    Raises:
        ArtifactError: The folder has no training.
        ConfigError: The run's configuration cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: there is no such folder; expected the folder of a trained run, "
            "such as runs/demo"
        )
    training = Stage(folder, "training", f"transbeam train {folder}")
    if training.exists and not training.is_finished:
        # Its own file is written at the end; that of the records is there.
        config = load_run(run_file(folder))
        return RunFacts(name, folder, config, _UNFINISHED, is_trained=False)
    training.load()
    config = load_run(folder / CONFIG)
    return RunFacts(name, folder, config, _why_no_maps(config))


def _why_no_maps(config: RunConfig) -> str | None:
    if isinstance(config.objective, ImageObjective):
        return "the model reads images, and the page shows the attention of texts"
    kinds: list[Attention] = [config.model.attention]
    if isinstance(config.model, Seq2SeqModelConfig):
        kinds.append(config.model.decoder_attention or config.model.attention)
    for attention in kinds:
        if (reason := _WITHOUT_MAPS.get(attention.kind)) is not None:
            return f"its attention is of kind {attention.kind}: {reason}"
    return None
