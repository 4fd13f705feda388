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
    """Corpus, cleaning, deduplication and the format of the records."""

    source: Source = option("Source of the documents.")
    validation_source: Source | None = option(
        "Source of all validation documents: `source` is then used for training only, "
        "without the documents that occur here. Left out: `validation_fraction` of "
        "`source` is held out.",
        default=None,
    )
    cleaning: CleaningConfig = option(
        "Normalization and filters of the documents.", default=CleaningConfig
    )
    deduplication: DeduplicationConfig = option(
        "Removal of duplicate documents.", default=DeduplicationConfig
    )
    validation_fraction: float = option(
        "Share of the documents held out for validation, selected by hash of their "
        "content. No effect where `validation_source` is set.",
        default=0.05,
        minimum=0.0,
        maximum=0.5,
    )
    sequence_length: int = option(
        "Tokens per record, special ones included.", default=128, minimum=8
    )
    layout: Layout = option(
        "Layout of documents in records.", default=PackedLayoutConfig
    )
    shard_megabytes: float = option(
        "Megabytes (10^6 bytes) of source per shard; the source makes more shards if "
        "it decompresses to more than twice that in text.",
        default=4.0,
        minimum=0.001,
    )
    compression: Literal["none", "gzip"] = option(
        "Compression of the shards.", default="none"
    )
    maximum_quarantine_fraction: float = option(
        "Largest share of unusable input, of documents or of bytes, whichever is "
        "larger; above it the job stops with an error.",
        default=0.01,
        minimum=0.0,
        maximum=1.0,
    )
    accept_incomplete_files: bool = option(
        "Use the readable part of truncated or damaged files. Otherwise such a file "
        "stops the job with an error.",
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
