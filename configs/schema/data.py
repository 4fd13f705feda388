"""`data`: the corpus, its filters, and the form of the records."""

from dataclasses import dataclass
from typing import Literal

from transbeam.configs.base.errors import ConfigError
from transbeam.configs.base.fields import option
from transbeam.configs.schema.cleaning import CleaningConfig
from transbeam.configs.schema.deduplication import DeduplicationConfig
from transbeam.configs.schema.record_layout import (
    BucketedLayoutConfig,
    Layout,
    PackedLayoutConfig,
)
from transbeam.configs.schema.sources import Source, check_weights


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """From the corpus to records."""

    source: Source = option("Where the text comes from.")
    validation_source: Source | None = option(
        "Where the validation documents come from, all of them: `source` is then for "
        "training alone, without the documents that are in here. Left out: "
        "`validation_fraction` of `source` is held out.",
        default=None,
    )
    cleaning: CleaningConfig = option(
        "What is mended in texts, and which to keep.", default=CleaningConfig
    )
    deduplication: DeduplicationConfig = option(
        "Of documents that say the same, one stays.", default=DeduplicationConfig
    )
    validation_fraction: float = option(
        "Share of the documents, by hash of their content, held out for validation. "
        "Without effect where there is a `validation_source`.",
        default=0.05,
        minimum=0.0,
        maximum=0.5,
    )
    sequence_length: int = option(
        "Tokens per record, special ones included.", default=128, minimum=8
    )
    layout: Layout = option("How texts share records.", default=PackedLayoutConfig)
    shard_megabytes: float = option(
        "Megabytes (10^6 bytes) of source that make one shard; several where it "
        "unpacks to more than twice that in text.",
        default=4.0,
        minimum=0.001,
    )
    compression: Literal["none", "gzip"] = option(
        "How the shards are compressed.", default="none"
    )
    maximum_quarantine_fraction: float = option(
        "The job stops when more than this share of the input cannot be used: of the "
        "documents or of the bytes of source, whichever share is larger.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
    accept_incomplete_files: bool = option(
        "Use what there is of a file that ends before its end mark, or is so damaged "
        "that it is open what of it is right. Otherwise such a file stops the job.",
        default=False,
    )

    def __post_init__(self) -> None:
        check_weights("validation_source", self.validation_source)
        layout = self.layout
        if not isinstance(layout, BucketedLayoutConfig):
            return
        if layout.lengths[-1] != self.sequence_length:
            raise ConfigError(
                f"sequence_length={self.sequence_length} is not the last of "
                f"layout.lengths={list(layout.lengths)}: make them the same"
            )
