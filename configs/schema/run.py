"""`RunConfig`: the whole run, and the rules between its sections.

Rules between the model and other sections are in `configs/loader/compatibility.py`.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.data import DataConfig
from transbeam.configs.schema.evaluation import EvaluationConfig
from transbeam.configs.schema.export import ExportConfig, check_examples
from transbeam.configs.schema.inheritance import FileInheritanceConfig
from transbeam.configs.schema.model import EncoderConfig, Model
from transbeam.configs.schema.objectives.language_modeling import MaskedConfig
from transbeam.configs.schema.objectives.objective import (
    EmbeddingObjective,
    ImageObjective,
    Objective,
)
from transbeam.configs.schema.objectives.supervised import SpanQAConfig
from transbeam.configs.schema.objectives.traits import TRAITS, traits
from transbeam.configs.schema.sources import ImagesSourceConfig, MixtureSourceConfig
from transbeam.configs.schema.tokenizer import TokenizerConfig, WordPieceConfig
from transbeam.configs.schema.training import TrainingConfig

FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Configuration of a run, from the corpus to the exported model."""

    INHERITANCE: ClassVar[type] = FileInheritanceConfig

    name: str
    """Name of the run and of its folder."""

    seed: int = option(0, minimum=0)
    """Seed of all random numbers of the run."""

    data: DataConfig
    """Corpus, cleaning and records."""

    tokenizer: TokenizerConfig = option(WordPieceConfig)
    """Tokenizer."""

    objective: Objective = option(MaskedConfig)
    """Training objective: determines the format of the records and the head of the
    model.
    """

    model: Model = option(EncoderConfig)
    """Model architecture."""

    training: TrainingConfig = option(lambda: TrainingConfig(steps=10_000))
    """Optimization and checkpoints. Left out: 10,000 steps with the defaults; a run
    that only builds records needs no more.
    """

    export: ExportConfig = option(ExportConfig)
    """Export to TF Serving and TFLite."""

    evaluation: EvaluationConfig = option(EvaluationConfig)
    """Evaluation of the trained model."""

    def __post_init__(self) -> None:
        if not FOLDER_NAME.fullmatch(self.name):
            raise ConfigError(
                f"name={self.name!r} cannot name a folder: begin with a letter or a "
                "digit; letters, digits, '.', '_' and '-' may follow"
            )
        self._check_images()
        self._check_numbers()
        self._check_objective()
        self._check_negatives()

    def _check_images(self) -> None:
        """Checks that sources and objective have the same image size."""
        objective = self.objective
        if not isinstance(objective, ImageObjective):
            return
        sources = {
            "data.source": self.data.source,
            "data.validation_source": self.data.validation_source,
            "evaluation.test": self.evaluation.test,
        }
        for key, given in sources.items():
            several = isinstance(given, MixtureSourceConfig)
            for source in [part.source for part in given.parts] if several else [given]:
                if not isinstance(source, ImagesSourceConfig):
                    continue
                if source.image_size != objective.image_size:
                    raise ConfigError(
                        f"{key}: image_size={source.image_size} is not "
                        f"objective.image_size={objective.image_size}: make them the "
                        "same"
                    )

    def _check_numbers(self) -> None:
        """Rejects class-related settings for objectives that do not select a class."""
        keys, answers = (), ""
        activation = traits(self.objective).activation
        if activation is None:
            is_vector = isinstance(self.objective, EmbeddingObjective)
            answers = "a vector" if is_vector else "a number"
            keys = ("label_smoothing", "z_loss")
        elif activation == "sigmoid":
            keys, answers = ("z_loss",), "each label by itself"
        for key in keys:
            if value := getattr(self.training, key):
                raise ConfigError(
                    f"training.{key}={value} is about the scores of classes, and "
                    f"objective.kind={self.objective.kind} predicts {answers}. "
                    "Remove it"
                )

    def _check_objective(self) -> None:
        """Checks that the other sections are allowed for the kind of objective."""
        kind = self.objective.kind
        if self.data.deduplication.near and not traits(self.objective).text_alone:
            raise ConfigError(
                "data.deduplication.near compares texts alone, but "
                f"objective.kind={kind} learns from what goes with them: documents "
                "with one text and different labels would be dropped. Remove `near`"
            )
        if (
            self.data.layout.kind == "bucketed"
            and not traits(self.objective).in_buckets
        ):
            suited = [name for name, of in TRAITS.items() if of.in_buckets]
            raise ConfigError(
                f"data.layout.kind=bucketed does not go with objective.kind={kind}, "
                f"only with {', '.join(suited)}"
            )
        if isinstance(self.objective, SpanQAConfig):
            least = self.objective.minimum_sequence_length
            if self.data.sequence_length < least:
                raise ConfigError(
                    f"data.sequence_length={self.data.sequence_length} leaves no room "
                    "for the context behind objective.max_question_length="
                    f"{self.objective.max_question_length}: at least {least} is needed"
                )
        check_examples(self.objective, self.export.examples)

    def _check_negatives(self) -> None:
        """Checks that a pair has others to be compared with, for `contrastive_pairs`.

        The trainer checks the same for the micro-batch of each replica.
        """
        training = self.training
        if not isinstance(self.objective, EmbeddingObjective):
            return
        if training.batch_size // training.accumulation < 2:
            raise ConfigError(
                f"training.batch_size={training.batch_size} in "
                f"training.accumulation={training.accumulation} micro-batches is one "
                f"pair each, and objective.kind={self.objective.kind} compares a pair "
                "with the others of its micro-batch: at least 2 are needed, and 32 or "
                "more are usual. Raise batch_size, or lower accumulation"
            )
        if training.distillation is not None:
            raise ConfigError(
                "training.distillation compares predictions with a teacher's, and "
                f"objective.kind={self.objective.kind} has none for a single text. "
                "Remove it; training.init_from begins with another run's weights"
            )
