"""A run's folder made of another run: what `transbeam trim` and `prune` share.

    NEW/run.yaml                       the configuration; train on with it, if you like
    NEW/imported/stage.json            where the weights are from, and what is gone
    NEW/imported/weights.safetensors   the weights that are left
    NEW/imported/tokenizer             the tokenizer
    NEW/data, NEW/training             finished stages, for `transbeam export`

It is the folder that `transbeam import` makes, of a run instead of a checkpoint.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.console import Console
from transbeam.configs.loader.compatibility import WITH_SEGMENTS
from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    weights_of,
)
from transbeam.configs.loader.run_folder import Stage, lock, save_config
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.loader.yaml_dump import dump_run
from transbeam.configs.schema.run import RunConfig
from transbeam.model.build import build_model
from transbeam.model.weights.safetensors_store import save_weights_by_path, take_over
from transbeam.pipeline.stage import data_inputs
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    TokenizerModel,
    read_tokenizer,
    save_tokenizer,
)
from transbeam.trainer.base.training_stage import sha256_of
from transbeam.trainer.base.warm_start import Origin
from transbeam.trainer.importing.import_command import (
    RUN_FILE,
    finish_stages,
    keep_edited,
)
from transbeam.trainer.importing.next_steps import is_ready
from transbeam.trainer.importing.run_config import name_of


class DerivedModel(NamedTuple):
    """A model with the weights that are left; how many there were; its new head's."""

    model: keras.Model
    weights: Mapping[str, np.ndarray]
    parameters_before: int
    new: list[str]

    @property
    def parameters(self) -> int:
        return sum(values.size for values in self.weights.values())


def folder_for(folder: Path, run_folder: Path | None, what: str) -> Path:
    """Where the smaller run goes.

    Args:
        folder: The run that it is made of.
        run_folder: What was asked for; None for `runs/` and the old name with `what`.
        what: What is done to the old run, as in `trimmed`.

    Raises:
        ArtifactError: It is the old run's own folder.

    Example:
    >>> str(folder_for(Path("models/bert"), None, "trimmed"))
    'runs/bert_trimmed'
    """
    run_folder = run_folder or Path("runs", f"{name_of(folder)}_{what}")
    if run_folder.resolve() == folder.resolve():
        raise ArtifactError(
            f"{run_folder}: is the run that is to be {what}. Give the smaller one a "
            "folder of its own: --run DIR"
        )
    return run_folder


def tokenizer_of(origin: Origin) -> TokenizerModel:
    """The tokenizer that a run reads with."""
    place = "data" if origin.vocabulary_size is not None else IMPORTED
    return read_tokenizer(origin.folder / place / TOKENIZER).model


def config_of(
    old: RunConfig, run_folder: Path, overrides: Sequence[str], **training: Any
) -> RunConfig:
    """The run as it was, but for its name and the weights that it begins with.

    Args:
        old: The run that it is made of, with what is smaller in it.
        run_folder: The new run's.
        overrides: `KEY=VALUE`.
        training: Further keys of `training` that are others.

    Raises:
        ConfigError: An override does not fit.
    """
    changed = dataclasses.replace(
        old.training,
        init_from=None,
        initial_weights=str(run_folder / IMPORTED / INITIAL_WEIGHTS),
        **training,
    )
    config = dataclasses.replace(old, name=name_of(run_folder), training=changed)
    return parse_run(
        dump_run(config),
        f"the run made of {old.name}",
        overrides,
        with_model=True,
        lines=False,
    )


def build_smaller(
    config: RunConfig,
    pieces: int,
    old: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    where: str,
) -> DerivedModel:
    """The model of the new run, with the weights that are left.

    Args:
        config: The new run.
        pieces: How many pieces its tokenizer has.
        old: All weights of the old run, by path.
        weights: Those that are left.
        where: What they are from, for messages.

    Raises:
        ArtifactError: They are of another model than `config` says.
    """
    model = build_model(
        config.model,
        config.objective,
        pieces,
        segments=config.objective.kind in WITH_SEGMENTS,
        dtype="float32",
        seed=config.seed,
    )
    new = take_over(model, weights, where)
    return DerivedModel(
        model, weights, sum(values.size for values in old.values()), new
    )


@dataclass(frozen=True)
class DerivedRun:
    """A run that is made of another one.

    Attributes:
        origin: The other one.
        config: The new run.
        stage: Where the weights come that it begins with.
        inputs: All that decides them.
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
        """Gathers what decides the weights.

        Args:
            origin: The run that it is made of.
            config: The new run.
            run_folder: Its folder.
            verb: The command's name.
            decided_by: What decides the weights besides, in JSON values.
        """
        folder = origin.folder
        inputs = {
            **data_inputs(config),
            "weights": sha256_of(weights_of(folder)),
            "tokenizer": origin.tokenizer,
            "model": dataclasses.asdict(config.model),
            **decided_by,
        }
        command = f"transbeam {verb} {folder} --run {run_folder}"
        return cls(origin, config, Stage(run_folder, IMPORTED, command), inputs)

    def made_before(self, console: Console, of_what: str) -> dict[str, Any] | None:
        """The result, if the folder is there and nothing would be another."""
        done = self.stage.result_if_done(self.inputs)
        if done is None or not (self.stage.run_folder / RUN_FILE).exists():
            return None
        console.result(f"skipped: {of_what} made {self.stage.path} before")
        return {**done, "skipped": True}

    def command(self, name: str) -> str:
        """The line to type for another command on the new run, for messages."""
        folder = self.stage.run_folder
        run = shlex.join([str(folder / RUN_FILE), "--run", str(folder)])
        return f"`transbeam {name} {run}`"

    def is_exportable(
        self, smaller: DerivedModel, tokenizer: TokenizerModel | None
    ) -> bool:
        """Whether it can be exported as it is."""
        return is_ready(self.config, tokenizer, smaller.new)

    def write(
        self,
        smaller: DerivedModel,
        tokenizer: TokenizerModel | None,
        told: Mapping[str, Any],
        console: Console,
    ) -> dict[str, Any]:
        """Writes the folder.

        Args:
            smaller: The model, which fits `config`.
            tokenizer: What it reads with; None for one that reads images.
            told: What the command has to say of it, with a `summary`.
            console: Hears what is moved aside, and the summary.

        Returns:
            The stage's result.
        """
        config, stage = self.config, self.stage
        with lock(stage.run_folder):
            if moved := stage.begin(self.inputs):
                console.say(f"what was there before is now in {moved}")
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
                **told,
            }
            keep_edited(stage.run_folder / RUN_FILE, console)
            save_config(stage.run_folder, config)
            stage.finish(self.inputs, result)
        console.result(result["summary"])
        return result
