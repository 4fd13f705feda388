"""Builds the configuration of an imported run."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.model_files import IMPORTED, INITIAL_WEIGHTS, TOKENIZER
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.loader.yaml_dump import dump_sections
from transbeam.configs.schema.columns import ColumnsConfig
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import (
    ImageObjective,
    Objective,
    SpanObjective,
    TokenChoiceObjective,
)
from transbeam.configs.schema.objectives.supervised import ImageClassificationConfig
from transbeam.configs.schema.objectives.traits import fields_needed
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import CosineScheduleConfig
from transbeam.configs.schema.sources import (
    ImagesSourceConfig,
    Source,
    TextSourceConfig,
)
from transbeam.configs.schema.table_sources import (
    ConllSourceConfig,
    CsvSourceConfig,
    SquadSourceConfig,
)
from transbeam.configs.schema.tokenizer import PretrainedConfig, WordPieceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.importing.checkpoint_files import ImportedFiles

# A path that does not exist: the user has to choose the training data of an imported
# run.
_PLACE = "put-your-corpus-here"


def config_of_checkpoint(
    files: ImportedFiles,
    run_folder: Path,
    overrides: Sequence[str],
) -> RunConfig:
    """Builds the configuration of a run from a checkpoint.

    Args:
        files: The contents of the checkpoint's files.
        run_folder: The run's folder.
        overrides: `KEY=VALUE`; applied before the sections are checked against each
            other.

    Returns:
        The configuration, with a placeholder path as `data.source`.

    Raises:
        UserError: An override is invalid, or the sections do not fit each other.
    """
    checkpoint, tokenizer = files.checkpoint, files.tokenizer
    model = checkpoint.config
    patches = model.patches if isinstance(model, EncoderConfig) else None
    if tokenizer:
        pieces = len(tokenizer.pieces)
        multiple = _multiple(checkpoint.vocabulary_size, pieces, checkpoint.where)
        model = dataclasses.replace(model, vocabulary_multiple=multiple)
    imported = run_folder / IMPORTED
    length = min(128, model.max_sequence_length)
    objective = checkpoint.objective or _objective_for(model)
    sections = {
        "name": folder_run_name(run_folder),
        "data": DataConfig(source=_place_for(objective), sequence_length=length),
        "tokenizer": WordPieceConfig()
        if patches
        else PretrainedConfig(path=str(imported / TOKENIZER)),
        "objective": _without_defaults(_fitting(objective, length)),
        "model": model,
        "training": TrainingConfig(
            steps=10_000,
            # A usual learning rate of fine-tuning, far below that of pretraining.
            schedule=CosineScheduleConfig(peak=5e-5, warmup_steps=500),
            initial_weights=str(imported / INITIAL_WEIGHTS),
        ),
        "export": files.export,
        "evaluation": files.evaluation,
    }
    # The text has no file, so errors need no line numbers. The sections are checked
    # against each other only after the overrides.
    return parse_run(
        dump_sections(sections),
        f"the run made of {checkpoint.where}",
        overrides,
        with_model=True,
        lines=False,
    )


def _objective_for(model: Model) -> Objective:
    """A default objective for a model without a head."""
    patches = model.patches if isinstance(model, EncoderConfig) else None
    if patches is None:
        return MaskedConfig()
    return ImageClassificationConfig(
        labels=("LABEL_0", "LABEL_1"),
        image_size=patches.image_size,
        channels=patches.num_channels,
    )


def _fitting(objective: Objective, length: int) -> Objective:
    """Reduces the maximum question length of an objective for short records."""
    if not isinstance(objective, SpanObjective):
        return objective
    question = max(1, min(objective.max_question_length, length // 2 - 2))
    return dataclasses.replace(objective, max_question_length=question)


def _without_defaults(objective: Objective) -> dict[str, Any]:
    """Selects `kind` and the keys that differ from their defaults.

    An override of `kind` would otherwise keep keys that only the old kind has.

    Example:
    >>> from transbeam.configs.schema.objectives.supervised import SpanQAConfig
    >>> _without_defaults(SpanQAConfig(max_question_length=24))
    {'kind': 'span_qa', 'max_question_length': 24}
    """
    defaults = {f.name: f.default for f in dataclasses.fields(objective)}
    kept = {
        key: value for key, value in vars(objective).items() if value != defaults[key]
    }
    return {"kind": objective.kind, **kept}


def _place_for(objective: Objective) -> Source:
    """A placeholder source, in a common file format for the objective's data."""
    if isinstance(objective, ImageObjective):
        return ImagesSourceConfig(path=f"{_PLACE}/*/*", image_size=objective.image_size)
    if isinstance(objective, TokenChoiceObjective):
        return ConllSourceConfig(path=f"{_PLACE}/*.conll")
    if isinstance(objective, SpanObjective):
        return SquadSourceConfig(path=f"{_PLACE}/*.json")
    needed = fields_needed(objective)
    beside: dict[str, Any] = {name: name for name in needed if name != "text"}
    if not beside:
        return TextSourceConfig(path=f"{_PLACE}/*.txt")
    return CsvSourceConfig(path=f"{_PLACE}/*.csv", columns=ColumnsConfig(**beside))


def _multiple(rows: int, pieces: int, where: str) -> int:
    """The smallest padding multiple that pads a vocabulary of `pieces` to `rows` rows.

    Example:
    >>> _multiple(rows=32_128, pieces=32_100, where="t5"), _multiple(8, 8, "bert")
    (32, 1)
    """
    if pieces > rows:
        raise ArtifactError(
            f"{where}: the tokenizer has {pieces:,} pieces, and the weights are for "
            f"{rows:,}. Put the tokenizer there that the model was trained with"
        )
    return next(m for m in range(1, rows + 1) if -(-pieces // m) * m == rows)


def folder_run_name(folder: Path) -> str:
    """Derives a run's name from a folder's name.

    Example:
    >>> folder_run_name(Path("models/bert base (uncased)"))
    'bert-base-uncased'
    """
    words = re.findall(r"[A-Za-z0-9][A-Za-z0-9._]*", folder.absolute().name)
    return "-".join(words) or "imported"
