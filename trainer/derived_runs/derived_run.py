"""A run folder derived from another run: code shared by `transbeam trim` and `prune`.

    NEW/run.yaml                       the configuration, also for further training
    NEW/imported/stage.json            the source of the weights, and what was removed
    NEW/imported/weights.safetensors   the remaining weights
    NEW/imported/tokenizer             the tokenizer
    NEW/data, NEW/training             finished stages, for `transbeam export`

The layout of the folder is the same as after `transbeam import`, with a run as the
source instead of a checkpoint.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.compatibility import model_differences
from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    find_model_weights,
)
from transbeam.configs.loader.run_file import RUN_FILE
from transbeam.configs.loader.run_folder import Stage, lock, save_config
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.objectives.traits import traits
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.tokenizer import PretrainedConfig
from transbeam.model.build import build_model
from transbeam.model.weights.safetensors_store import (
    load_matching_weights,
    save_weights_by_path,
)
from transbeam.pipeline.records.manifest import sha256
from transbeam.pipeline.stage import data_inputs
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    read_tokenizer,
    save_tokenizer,
)
from transbeam.pipeline.tokenizers.files.tokenizer_model import TokenizerModel
from transbeam.trainer.base.warm_start import Origin
from transbeam.trainer.importing.import_command import (
    finish_stages,
    is_ready,
    keep_edited,
)
from transbeam.trainer.importing.run_config import folder_run_name


class DerivedModel(NamedTuple):
    """A trimmed or pruned model.

    Attributes:
        model: The model of the new run.
        weights: The remaining weights, by path.
        parameters_before: Parameter count of the source run's model.
        new: Paths of weights that the old run lacks, and that are newly initialized.
    """

    model: keras.Model
    weights: Mapping[str, np.ndarray]
    parameters_before: int
    new: list[str]

    @property
    def parameters(self) -> int:
        return sum(values.size for values in self.weights.values())


def folder_for(folder: Path, run_folder: Path | None, what: str) -> Path:
    """Chooses the folder of the derived run.

    Args:
        folder: The source run.
        run_folder: The user's choice; None for a folder in `runs/` that is named after
            the source run, with the suffix `what`.
        what: The name's suffix, a participle such as `trimmed`.

    Raises:
        ArtifactError: The chosen folder is the folder of the source run.

    Example:
    >>> str(folder_for(Path("models/bert"), None, "trimmed"))
    'runs/bert_trimmed'
    """
    run_folder = run_folder or Path("runs", f"{folder_run_name(folder)}_{what}")
    if run_folder.resolve() == folder.resolve():
        raise ArtifactError(
            f"{run_folder}: is the run that is to be {what}. Give the new one a "
            "folder of its own: --run DIR"
        )
    return run_folder


def origin_tokenizer(origin: Origin) -> TokenizerModel:
    """Reads the tokenizer of a run."""
    place = "data" if origin.vocabulary_size is not None else IMPORTED
    return read_tokenizer(origin.folder / place / TOKENIZER).model


def derived_config(
    old: RunConfig, run_folder: Path, overrides: Sequence[str], **training: Any
) -> RunConfig:
    """Derives the new run's configuration: another name and other initial weights.

    Args:
        old: The source run's configuration, with the reduced sizes already in it.
        run_folder: The new run's folder.
        overrides: `KEY=VALUE` overrides.
        training: Further keys of `training` to replace.

    Raises:
        ConfigError: An override is invalid.
    """
    changed = dataclasses.replace(
        old.training,
        init_from=None,
        initial_weights=str(run_folder / IMPORTED / INITIAL_WEIGHTS),
        **training,
    )
    config = dataclasses.replace(
        old, name=folder_run_name(run_folder), training=changed
    )
    return parse_run(
        dump_run(config),
        f"the run made of {old.name}",
        overrides,
        with_model=True,
        lines=False,
    )


def pruned_run_config(
    old: RunConfig, run_folder: Path, overrides: Sequence[str], **training: Any
) -> RunConfig:
    """Derives the configuration of a pruned model, whose tokenizer is the old one.

    A teacher and the data sets of other runs stay in the configuration, because the
    tokenizer is unchanged. The teacher's blocks are not copied into the student again.

    Args:
        old: The source run's configuration, with the reduced sizes already in it.
        run_folder: The new run's folder.
        overrides: `KEY=VALUE` overrides.
        training: Further keys of `training` to replace.

    Raises:
        ConfigError: An override is invalid, or changes the model.
    """
    if not isinstance(old.objective, ImageObjective):
        path = str(run_folder / IMPORTED / TOKENIZER)
        old = dataclasses.replace(old, tokenizer=PretrainedConfig(path=path))
    teacher = old.training.distillation
    if teacher is not None:
        teacher = dataclasses.replace(teacher, layers=(), decoder_layers=None)
    config = derived_config(
        old, run_folder, overrides, distillation=teacher, **training
    )
    if wrong := model_differences(old, config):
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ConfigError(
            f"--set: the weights that are left would mean something else:\n{listed}\n"
            "What is pruned is chosen by the options of the command alone"
        )
    return config


def build_smaller(
    config: RunConfig,
    pieces: int,
    old: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    where: str,
) -> DerivedModel:
    """Builds the model of the new run and loads the remaining weights.

    Args:
        config: The new run.
        pieces: Vocabulary size of the new run's tokenizer.
        old: All weights of the source run, by path.
        weights: The remaining weights, by path.
        where: Source of the weights, for messages.

    Raises:
        ArtifactError: The weights do not fit the model of `config`.
    """
    model = build_model(
        config.model,
        config.objective,
        pieces,
        segments=traits(config.objective).has_segments,
        dtype="float32",
        seed=config.seed,
    )
    new = load_matching_weights(model, weights, where)
    return DerivedModel(
        model, weights, sum(values.size for values in old.values()), new
    )


@dataclass(frozen=True)
class DerivedRun:
    """A run that is derived from another one.

    Attributes:
        origin: The source run.
        config: The new run.
        stage: The stage that holds the new run's initial weights.
        inputs: All inputs that determine the new run's initial weights.
    """

    origin: Origin
    config: RunConfig
    stage: Stage
    inputs: Mapping[str, Any]

    @classmethod
    def from_origin(
        cls,
        origin: Origin,
        config: RunConfig,
        run_folder: Path,
        verb: str,
        **decided_by: Any,
    ) -> "DerivedRun":
        """Collects all inputs that determine the weights.

        Args:
            origin: The source run.
            config: The new run.
            run_folder: Its folder.
            verb: The command's name, `trim` or `prune`.
            decided_by: Further inputs that determine the weights, as JSON values.
        """
        folder = origin.folder
        inputs = {
            **data_inputs(config),
            "weights": sha256(find_model_weights(folder)),
            "tokenizer": origin.tokenizer,
            "model": dataclasses.asdict(config.model),
            **decided_by,
        }
        command = f"transbeam {verb} {folder} --run {run_folder}"
        return cls(origin, config, Stage(run_folder, IMPORTED, command), inputs)

    def made_before(self, console: Console, of_what: str) -> dict[str, Any] | None:
        """The earlier result, if the folder exists and was made from equal inputs."""
        done = self.stage.result_if_done(self.inputs)
        if done is None or not (self.stage.run_folder / RUN_FILE).exists():
            return None
        console.result(f"skipped: {self.stage.path} was made from {of_what}")
        return {**done, "skipped": True}

    def command(self, name: str) -> str:
        """The command line that runs another command on the new run, for messages."""
        folder = self.stage.run_folder
        run = shlex.join([str(folder / RUN_FILE), "--run", str(folder)])
        return f"`transbeam {name} {run}`"

    def is_exportable(
        self, smaller: DerivedModel, tokenizer: TokenizerModel | None
    ) -> bool:
        """Returns whether the run can be exported without further training."""
        return is_ready(self.config, tokenizer, smaller.new)

    def write(
        self,
        smaller: DerivedModel,
        tokenizer: TokenizerModel | None,
        entries: Mapping[str, Any],
        console: Console,
    ) -> dict[str, Any]:
        """Writes the run's folder.

        Args:
            smaller: The model, which fits `config`.
            tokenizer: The tokenizer of the new run; None for an image model.
            entries: The command's own result entries, among them `summary`.
            console: Prints the new location of earlier results, and the summary.

        Returns:
            The stage's result.
        """
        config, stage = self.config, self.stage
        with lock(stage.run_folder):
            if moved := stage.begin(self.inputs):
                console.say(f"the earlier results are now in {moved}")
            save_weights_by_path(stage.path / INITIAL_WEIGHTS, smaller.weights.items())
            if tokenizer is not None:
                save_tokenizer(stage.path / TOKENIZER, tokenizer)
            exportable = self.is_exportable(smaller, tokenizer)
            if exportable:
                finish_stages(
                    config,
                    stage.run_folder,
                    smaller.model,
                    tokenizer,
                    has_head=not smaller.new,
                )
            result = {
                "source": str(self.origin.folder.absolute()),
                "path": str(stage.path),
                "tokenizer": str(stage.path / TOKENIZER) if tokenizer else None,
                "parameters": smaller.parameters,
                "parameters_before": smaller.parameters_before,
                "new": smaller.new,
                "exportable": exportable,
                **entries,
            }
            keep_edited(stage.run_folder / RUN_FILE, console)
            save_config(stage.run_folder, config)
            stage.finish(self.inputs, result)
        console.result(result["summary"])
        return result
