"""Loads the model of a run for an evaluation: the trained or the imported one.

An imported model has weights and a tokenizer, and no records. Such a model can be
evaluated on a test set, whose records are made for it, and on the validation split of
records that were made later with its tokenizer.
"""

from dataclasses import dataclass
from pathlib import Path

import keras

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.cli.arguments import Invocation
from transbeam.configs.loader.compatibility import model_differences
from transbeam.configs.loader.model_files import (
    IMPORTED,
    INITIAL_WEIGHTS,
    TOKENIZER,
    WEIGHTS,
    training_stage,
)
from transbeam.configs.loader.run_folder import Stage
from transbeam.configs.schema.objectives.objective import ImageObjective
from transbeam.configs.schema.run import RunConfig
from transbeam.model.kernels.matmul_dtype import set_matmul_dtype
from transbeam.model.weights.safetensors_store import load_initial_weights
from transbeam.pipeline.records.epochs import settle_steps
from transbeam.pipeline.stage import data_stage, finished_data
from transbeam.pipeline.tokenizers.base.interface import Tokenizer
from transbeam.pipeline.tokenizers.base.vocabulary import SPECIAL_PIECES
from transbeam.pipeline.tokenizers.files.tokenizer_folder import load_tokenizer
from transbeam.pipeline.tokenizers.wordpiece.wordpiece_tokenizer import (
    WordPieceTokenizer,
)
from transbeam.trainer.base.training_stage import (
    build_trainable,
    is_as_imported,
    training_inputs,
)
from transbeam.trainer.base.warm_start import find_origin
from transbeam.trainer.base.weight_files import load_weights


@dataclass(frozen=True)
class RunModel:
    """Files of a run's model: weights and tokenizer.

    Attributes:
        config: The run.
        weights: The weight file.
        texts: The folder with the tokenizer and, unless a test set is evaluated, the
            records.
        fingerprint: Fingerprint of the inputs from which the weights were made.
        is_imported: True if the weights are imported and untrained.
        matmul_dtype: The dtype in which the training multiplied bfloat16 matrices; None
            if no training used bfloat16.
    """

    config: RunConfig
    weights: Path
    texts: Path
    fingerprint: str
    is_imported: bool
    matmul_dtype: str | None = None

    def tokenizer(self) -> Tokenizer:
        """Loads its tokenizer.

        Raises:
            ArtifactError: The tokenizer is missing or damaged.
        """
        folder = self.texts / TOKENIZER
        if self.is_imported and not folder.is_dir():
            if isinstance(self.config.objective, ImageObjective):
                return WordPieceTokenizer(SPECIAL_PIECES)  # reads nothing
            raise ArtifactError(
                f"{folder}: is not there: the model was imported without its "
                "tokenizer, and cannot read text. Put the tokenizer's files beside "
                "the weights and import again"
            )
        return load_tokenizer(folder)

    def load(self, vocabulary_size: int) -> keras.Model:
        """Builds the model for packed records and loads its weights.

        Raises:
            ArtifactError: The weights are missing, damaged, or of another model; or
                they lack the objective's head.
        """
        set_matmul_dtype(self.matmul_dtype)
        model = build_trainable(self.config, vocabulary_size)
        if not self.is_imported:
            load_weights(model, self.weights)
        elif new := load_initial_weights(model, self.weights):
            raise ArtifactError(
                f"{self.weights}: {', '.join(new)} are not there, so the head of "
                f"objective.kind={self.config.objective.kind} has learned nothing. "
                "Train it: `transbeam data` and `transbeam train`; or evaluate with "
                "the objective that the model was trained for"
            )
        return model


def find_run_model(invocation: Invocation, *, on_test: bool) -> RunModel:
    """Finds the model of a run, and checks it against the configuration.

    Args:
        invocation: The command.
        on_test: True for an evaluation on a test set, which needs no existing records.

    Raises:
        ArtifactError: The model is missing or of another configuration, or there are no
            records to evaluate it on.
    """
    config, run_folder = invocation.config, invocation.run_folder
    if is_as_imported(run_folder):
        return _imported(invocation, on_test=on_test)
    made = finished_data(config, run_folder)
    stage = training_stage(run_folder)
    settled = settle_steps(config, run_folder / "data")
    stage.require(training_inputs(settled, made["records_sha256"], stage.inputs()))
    trained = stage.load()
    return RunModel(
        config,
        stage.path / WEIGHTS,
        run_folder / "data",
        trained["fingerprint"],
        is_imported=False,
        matmul_dtype=trained["result"].get("matmul_dtype"),
    )


def _imported(invocation: Invocation, *, on_test: bool) -> RunModel:
    config, run_folder = invocation.config, invocation.run_folder
    origin = find_origin(run_folder)
    stage = Stage(run_folder, IMPORTED, f"transbeam import DIR --run {run_folder}")
    if wrong := model_differences(origin.config, config):
        listed = "\n".join(f"  {line}" for line in wrong)
        raise ArtifactError(
            f"{stage.path}: holds another model than the configuration describes:\n"
            f"{listed}\nWrite in `model` what is there: {run_folder / 'run.yaml'}"
        )
    if not on_test:
        _check_records(invocation, origin.tokenizer)
    return RunModel(
        config,
        stage.path / INITIAL_WEIGHTS,
        stage.path if on_test else run_folder / "data",
        stage.load()["fingerprint"],
        is_imported=True,
    )


def _check_records(invocation: Invocation, tokenizer: str | None) -> None:
    """Checks that there are records which fit an imported model's tokenizer."""
    config, run_folder = invocation.config, invocation.run_folder
    stage = data_stage(run_folder)
    is_made = (stage.path / "stage.json").is_file()
    if not is_made or stage.load()["result"].get(IMPORTED):
        raise ArtifactError(
            f"{run_folder}: holds a model as it was imported, and no records: there is "
            "no validation split. Evaluate it on a test set: set evaluation.test, and "
            f"add --test; or make records: {invocation.command('data')}"
        )
    found = finished_data(config, run_folder)["vocabulary_fingerprint"]
    if tokenizer is not None and found != tokenizer:
        raise ArtifactError(
            f"{stage.path}: the records were made with another tokenizer than the "
            f"model was imported with: fingerprint {found[:12]}…, expected "
            f"{tokenizer[:12]}…. Make them with its own, tokenizer.path="
            f"{run_folder / IMPORTED / TOKENIZER}"
        )
