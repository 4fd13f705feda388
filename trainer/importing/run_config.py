"""The configuration of a run that is made of a checkpoint."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transbeam.configs.base.errors import ArtifactError
from transbeam.configs.loader.model_files import IMPORTED, INITIAL_WEIGHTS, TOKENIZER
from transbeam.configs.loader.yaml_config import parse_run
from transbeam.configs.loader.yaml_dump import dump_sections
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import Objective
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    ImageClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.run import RunConfig
from transbeam.configs.schema.schedules import CosineScheduleConfig
from transbeam.configs.schema.sources import (
    ImagesSourceConfig,
    Source,
    TextSourceConfig,
)
from transbeam.configs.schema.table_sources import (
    ColumnsConfig,
    ConllSourceConfig,
    CsvSourceConfig,
    SquadSourceConfig,
)
from transbeam.configs.schema.tokenizer import PretrainedConfig, WordPieceConfig
from transbeam.configs.schema.training import TrainingConfig
from transbeam.trainer.importing.checkpoint_files import ImportedFiles

# A place that is not there: a run that was imported trains on nothing that its user
# has not chosen.
_PLACE = "put-your-corpus-here"


def config_of_checkpoint(
    files: ImportedFiles,
    run_folder: Path,
    overrides: Sequence[str],
) -> RunConfig:
    """The run that goes on from a checkpoint.

    Args:
        files: What the checkpoint says.
        run_folder: The run's folder.
        overrides: `KEY=VALUE`; heard before the defaults are held against each other.

    Returns:
        The run. Its `data.source` is a place that is not there.

    Raises:
        UserError: An override is not right, or the sections do not fit each other.
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
        "name": name_of(run_folder),
        "data": DataConfig(source=_place_for(objective), sequence_length=length),
        "tokenizer": WordPieceConfig()
        if patches
        else PretrainedConfig(path=str(imported / TOKENIZER)),
        "objective": _without_defaults(_fitting(objective, length)),
        "model": model,
        "training": TrainingConfig(
            steps=10_000,
            # What the papers train further with, a hundredth of a first training's.
            schedule=CosineScheduleConfig(peak=5e-5, warmup_steps=500),
            initial_weights=str(imported / INITIAL_WEIGHTS),
        ),
        "export": files.export,
        "evaluation": files.evaluation,
    }
    # The text is nowhere yet: that it has lines helps nobody. Nor are its sections held
    # against each other before the overrides are heard.
    return parse_run(
        dump_sections(sections),
        f"the run made of {checkpoint.where}",
        overrides,
        with_model=True,
        lines=False,
    )


def _objective_for(model: Model) -> Objective:
    """The objective of a body without a head, in want of anything better."""
    patches = model.patches if isinstance(model, EncoderConfig) else None
    if patches is None:
        return MaskedConfig()
    return ImageClassificationConfig(
        labels=("LABEL_0", "LABEL_1"),
        image_size=patches.image_size,
        channels=patches.num_channels,
    )


def _fitting(objective: Objective, length: int) -> Objective:
    """An objective whose defaults fit into short records."""
    if not isinstance(objective, SpanQAConfig):
        return objective
    question = max(1, min(objective.max_question_length, length // 2 - 2))
    return dataclasses.replace(objective, max_question_length=question)


def _without_defaults(objective: Objective) -> dict[str, Any]:
    """The keys that say more than their defaults, and `kind`.

    With another kind those of the old one would be left over.

    Example:
    >>> _without_defaults(SpanQAConfig(max_question_length=24))
    {'kind': 'span_qa', 'max_question_length': 24}
    """
    defaults = {f.name: f.default for f in dataclasses.fields(objective)}
    kept = {
        key: value for key, value in vars(objective).items() if value != defaults[key]
    }
    return {"kind": objective.kind, **kept}


def _place_for(objective: Objective) -> Source:
    """A source that is not there, in the format that most examples are in."""
    match objective:
        case ImageClassificationConfig(image_size=image_size):
            return ImagesSourceConfig(path=f"{_PLACE}/*/*", image_size=image_size)
        case TokenClassificationConfig():
            return ConllSourceConfig(path=f"{_PLACE}/*.conll")
        case SpanQAConfig():
            return SquadSourceConfig(path=f"{_PLACE}/*.json")
        case ClassificationConfig() | RegressionConfig():
            columns = ColumnsConfig(label="label")
        case PairClassificationConfig() | PairRegressionConfig():
            columns = ColumnsConfig(second_text="second_text", label="label")
        case _:
            return TextSourceConfig(path=f"{_PLACE}/*.txt")
    return CsvSourceConfig(path=f"{_PLACE}/*.csv", columns=columns)


def _multiple(rows: int, pieces: int, where: str) -> int:
    """The smallest multiple to which a vocabulary is rounded up to the table's rows.

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


def name_of(folder: Path) -> str:
    """A run's name out of a folder's.

    Example:
    >>> name_of(Path("models/bert base (uncased)"))
    'bert-base-uncased'
    """
    words = re.findall(r"[A-Za-z0-9][A-Za-z0-9._]*", folder.absolute().name)
    return "-".join(words) or "imported"
