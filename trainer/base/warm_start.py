"""Warm start: initializes a training with the weights of another run or of a file.

    training.init_from        a run's folder: the model it trained, or imported;
                              `model.init_from` sets it, too
    training.initial_weights  a file of weights by their paths

A run's folder records the configuration and tokenizer of its weights. So a tokenizer
with other ids, or a block that computes something else, is reported before the first
step.
"""

from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.compatibility import model_differences, takes_encoder
from transbeam.configs.loader.model_files import (
    IMPORTED,
    TOKENIZER,
    find_model_files,
    find_model_weights,
)
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.objectives.supervised import DialogueConfig
from transbeam.configs.schema.run import RunConfig
from transbeam.model.base.weight_paths import gives_scores
from transbeam.model.weights.assign import variables_by_path
from transbeam.model.weights.encoder_weights import (
    as_decoder_weights,
    as_encoder_weights,
    is_of_decoder,
)
from transbeam.model.weights.safetensors_store import (
    load_initial_weights,
    load_matching_weights,
    read_weights,
)
from transbeam.pipeline.records.manifest import Manifest, read_manifest
from transbeam.pipeline.tokenizers.files.tokenizer_folder import (
    have_same_ids,
    tokenizer_fingerprint,
)
from transbeam.trainer.base.training_stage import build_trainable
from transbeam.trainer.base.weight_files import copy_to_host, load_weights

_NO_TOKENIZER = ", which came without a tokenizer: ids may mean something else"


@dataclass(frozen=True)
class Origin:
    """A run whose weights initialize another training.

    Attributes:
        folder: The run's folder.
        config: The configuration with which the run was trained or imported.
        vocabulary_size: Vocabulary size of the run's tokenizer; None if the run was
            imported.
        tokenizer: Fingerprint of the run's tokenizer; None if the run has no tokenizer.
    """

    folder: Path
    config: RunConfig
    vocabulary_size: int | None
    tokenizer: str | None

    def values(self) -> dict[str, np.ndarray]:
        """Reads the run's weights, by their paths.

        Raises:
            ArtifactError: The file is missing or damaged.
        """
        if self.vocabulary_size is None:
            return read_weights(find_model_weights(self.folder))
        model = build_trainable(self.config, self.vocabulary_size)
        load_weights(model, find_model_weights(self.folder))
        return {
            path: copy_to_host(weight)
            for path, weight in variables_by_path(model).items()
        }


def find_origin(folder: Path) -> Origin:
    """Finds the run to take weights from, and prefers trained to imported weights.

    Raises:
        ArtifactError: The run has no weights.
    """
    files = find_model_files(folder)
    config = load_run(files.config, with_model=True)
    if files.is_trained:
        vocabulary = read_manifest(folder / "data").vocabulary
        return Origin(folder, config, vocabulary["size"], vocabulary["fingerprint"])
    tokenizer = files.tokenizer
    return Origin(
        folder,
        config,
        None,
        None if tokenizer is None else tokenizer_fingerprint(tokenizer),
    )


def check_origin(config: RunConfig, run_folder: Path, manifest: Manifest) -> None:
    """Checks that the run of `init_from` fits a new training, before files are moved.

    Args:
        config: The new training's configuration.
        run_folder: Its run folder.
        manifest: The manifest of its records.

    Raises:
        ArtifactError: The model does not exist, has another architecture or tokenizer,
            or is in this run's own folder, where this training would move it aside.
    """
    training = config.training
    teacher = training.distillation and training.distillation.teacher
    for key, named in (
        ("init_from", training.init_from),
        ("distillation.teacher", teacher),
    ):
        folder = None if named is None else Path(named).expanduser().resolve()
        if folder == run_folder.resolve():
            raise ArtifactError(
                f"training.{key}={named} is the folder of this run itself. Train in "
                "another one: --run DIR"
            )
    if training.init_from is not None:
        _check(
            find_origin(Path(training.init_from).expanduser()),
            config,
            manifest,
        )


def begin(
    model: keras.Model, config: RunConfig, manifest: Manifest
) -> tuple[str, list[str]] | None:
    """Loads the initial weights that a training's configuration names into its model.

    Args:
        model: The model of `config`.
        config: The new training's configuration.
        manifest: The manifest of its records.

    Returns:
        The source of the weights, and the paths of newly initialized weights, which
        belong to a head that the source lacks, or to a decoder that is unlike it; None
        for a training from random weights.

    Raises:
        ArtifactError: The weights are missing, or belong to another model or tokenizer;
            the message names the differences.
    """
    training = config.training
    if training.init_from is not None:
        origin = find_origin(Path(training.init_from).expanduser())
        _check(origin, config, manifest)
        where = str(find_model_weights(origin.folder))
        values = origin.values()
        if takes_encoder(origin.config, config):
            values = as_encoder_weights(values)
            shapes = {
                path: tuple(variable.shape)
                for path, variable in variables_by_path(model).items()
            }
            values |= as_decoder_weights(values, shapes)
            new = load_matching_weights(model, values, where, is_of_decoder)
            if origin.tokenizer is None:
                where += _NO_TOKENIZER
            return f"{where}, as its encoder and its decoder", new
        if _answers(origin.config) != _answers(config):
            values = {path: x for path, x in values.items() if not gives_scores(path)}
        new = load_matching_weights(model, values, where)
        if origin.tokenizer is None:
            where += _NO_TOKENIZER
        return where, new
    if training.initial_weights is not None:
        path = Path(training.initial_weights).expanduser()
        return str(path), load_initial_weights(model, path)
    return None


def _answers(config: RunConfig) -> tuple[str, tuple[str, ...]] | None:
    """Objective kind and labels of a classification head; None for other heads."""
    labels = getattr(config.objective, "labels", ())
    return (config.objective.kind, labels) if labels else None


def _check(origin: Origin, config: RunConfig, manifest: Manifest) -> None:
    wrong = model_differences(origin.config, config)
    where = f"training.init_from={config.training.init_from}"
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ArtifactError(
            f"{where}: was made with another model than this run's:\n{listed}\n"
            "Write in `model` what is there, or name the run there: `model: "
            f"{{init_from: {config.training.init_from}}}`"
        )
    found = manifest.vocabulary["fingerprint"]
    if origin.tokenizer is not None and found != origin.tokenizer:
        place = "data" if origin.vocabulary_size is not None else IMPORTED
        tokenizers = manifest.folder / TOKENIZER, origin.folder / place / TOKENIZER
        # That of a dialogue has a chat template, and finds its special tokens.
        if isinstance(config.objective, DialogueConfig) and have_same_ids(*tokenizers):
            return
        raise ArtifactError(
            f"{where}: reads with another tokenizer: fingerprint "
            f"{origin.tokenizer[:12]}… there, {found[:12]}… in "
            f"{manifest.folder}. Make the records with its own: `tokenizer: {{kind: "
            f"pretrained, path: {origin.folder / place / TOKENIZER}}}`"
        )
