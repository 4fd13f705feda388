"""`RunConfig`: the whole run, and the rules between its sections."""

import re
from dataclasses import dataclass

from configs.data import DataConfig
from configs.errors import ConfigError
from configs.export import ExportConfig
from configs.fields import option
from configs.model import EncoderConfig
from configs.language_modelling import MaskedConfig
from configs.tokenizer import WordPieceConfig
from configs.training import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One YAML file: from a corpus to a served and phone-ready model."""

    name: str = option("Names the run and its folder.")
    seed: int = option("All randomness of the run comes from it.", default=0, minimum=0)
    data: DataConfig = option("From the corpus to records.")
    tokenizer: WordPieceConfig = option(
        "How text becomes ids.", default=WordPieceConfig
    )
    objective: MaskedConfig = option("What to predict.", default=MaskedConfig)
    model: EncoderConfig = option("The network.", default=EncoderConfig)
    training: TrainingConfig = option("How it learns.")
    export: ExportConfig = option("What is made of it.", default=ExportConfig)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            raise ConfigError(
                f"name={self.name!r} cannot name a folder: begin with a letter or a "
                "digit; letters, digits, '.', '_' and '-' may follow"
            )
        if self.data.sequence_length > self.model.max_sequence_length:
            raise ConfigError(
                f"data.sequence_length={self.data.sequence_length} is more than "
                f"model.max_sequence_length={self.model.max_sequence_length}"
            )
        if self.model.num_segments:
            raise ConfigError(
                f"model.num_segments={self.model.num_segments}, but the records of "
                f"objective.kind={self.objective.kind} have no segments. Leave it 0"
            )
        for text in self.export.examples:
            if "[MASK]" not in text:
                raise ConfigError(f"export.examples: {text!r} has no [MASK] to fill")
